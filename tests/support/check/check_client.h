// One logical client of the demonstration: does one request at a time, each on a randomly chosen
// proxy, on keys only it writes, and judges every answer (oracle.h). Many of them run on one loop.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/net/loop.h"
#include "common/resp/reply_parser.h"
#include "tests/support/check/oracle.h"

namespace sf::check {

struct Counts {
  int64_t acked_writes = 0;
  int64_t reads = 0;
  int64_t errors = 0;   // error replies and broken connections
  int64_t unknown = 0;  // writes whose effect is unknown
  int64_t max_stall_us = 0;
  Verdict verdict;
  std::map<int64_t, int64_t> errors_by_100ms;  // wall clock / 100 -> errors
  std::map<std::string, int64_t> error_texts;
  void add(const Counts& other);
};

struct CheckOptions {
  std::vector<HostPort> proxies;
  std::vector<std::string> tags;  // hash tags of the slots to write
  int keys_per_client = 30;
  int64_t think_us = 0;  // pause between requests
};

class CheckClient {
 public:
  // loop and options outlive it. Loop thread.
  CheckClient(Loop* loop, const CheckOptions* options, int id, uint64_t seed);
  ~CheckClient();

  void start();
  // No new writes; then reads every key once and calls done. Errors are tried again until
  // `give_up_us` from now.
  void finish(int64_t give_up_us, std::function<void()> done);
  const Counts& counts() const { return counts_; }

 private:
  enum class Op { kSet, kGet, kIncr, kReadCounter, kPush, kReadList };
  struct Connection;
  struct Key {
    std::string name;
    RegisterOracle reg;
    CounterOracle counter;
    ListOracle list;
    int kind;  // 0 register, 1 counter, 2 list
  };

  void next();
  void send(Op op, size_t key);
  void answer(const Reply& reply);
  void broken();
  void error(const std::string& text);
  void final_next();
  void again_later();

  Loop* loop_;
  const CheckOptions* options_;
  int id_;
  Random random_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Key> keys_;
  Counts counts_;
  bool busy_ = false;
  Op op_ = Op::kGet;
  size_t key_ = 0;
  size_t current_ = 0;   // connection in use
  std::string value_;    // of the SET under way
  int64_t element_ = 0;  // of the RPUSH under way
  int64_t sent_us_ = 0;
  bool finishing_ = false;
  bool final_read_ = false;  // the request under way is one of the last reads
  size_t final_key_ = 0;
  int64_t give_up_at_us_ = 0;
  std::function<void()> done_;
  TimerId timer_ = 0;
};

}  // namespace sf::check
