// One client of the stand-in proxy: requests in, replies out in the same order (contracts/codis 3).
// Loop thread.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "common/resp/request_parser.h"
#include "tests/support/codis/proxy_command.h"

namespace sf::codis {

struct ProxyCounters {
  int64_t requests = 0;
  int64_t failures = 0;
  int64_t sessions = 0;
  int64_t alive = 0;
};

class Session final : public StreamHandler {
 public:
  // `on_end` is called once, from the loop, when the session may be destroyed.
  Session(Loop& loop, Router& router, const ProxyOptions& options, ProxyCounters& counters,
          size_t seed, std::function<void()> on_end);
  ~Session() override;
  void adopt(std::unique_ptr<AcceptedSocket> socket);

  void finished(Pending& pending, std::string_view reply);
  void job_finished() { go_on(kJob); }
  void refuse_client();  // one client too many: says so and ends

  size_t on_data(std::string_view unread) override;
  void on_drained() override { go_on(kSlowReader); }
  void on_closed(const Status& why) override;

 private:
  // Why nothing is read.
  enum Stop : unsigned { kJob = 1, kManyReplies = 2, kSlowReader = 4, kEnding = 8 };

  using Argv = std::span<const std::string_view>;

  void handle(const Request& request);
  bool handle_own(const Op& op, Argv argv);
  void handle_keyed(const Request& request, const Op& op);
  void handle_split(const Op& op, Argv argv, Join join, size_t step);
  void to_slot(const Op& op, int slot, std::string_view hash_key, const Request* raw, Argv argv);
  void to_address(Argv argv);
  void slots_mapping(Argv argv);
  void select(Argv argv);
  void answer(std::string_view reply);
  void answer_error(std::string_view text);
  void start_job(const std::shared_ptr<Job>& job);
  void flush_done();
  void stop(Stop why);
  void go_on(Stop why);
  void end();

  Loop& loop_;
  Router& router_;
  const ProxyOptions& options_;
  ProxyCounters& counters_;
  const size_t seed_;
  std::function<void()> on_end_;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  Request request_;
  std::deque<std::shared_ptr<Pending>> row_;
  int database_ = 0;
  unsigned stopped_ = 0;
};

}  // namespace sf::codis
