// A client's command on its way: waiting for its reply, split in pieces, held by a locked slot or
// by a migration (contracts/codis 1.6, 3.2). Loop thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/codis/proxy_commands.h"
#include "tests/support/codis/proxy_router.h"

namespace sf::codis {

class Session;

// One place in a session's row of replies.
class Pending {
 public:
  virtual ~Pending() = default;
  void finish(std::string_view reply);

  Session* session = nullptr;  // null: the client is gone
  bool done = false;
  std::string reply;
};

// The usual case: one request, one backend, the reply passed on as it came.
class SingleCommand final : public Pending, public Call {
 public:
  SingleCommand(Session* owner, bool is_read) : read_(is_read) { session = owner; }
  void on_reply(std::string_view bytes) override { finish(bytes); }
  void on_failure(std::string_view text) override;
  bool worth_sending() const override { return session != nullptr || !read_; }

 private:
  bool read_;
};

enum class Join { kOne, kMget, kMset, kCount };

// A command whose pieces go out one after the other; answered when all are.
class SplitCommand final : public Pending {
 public:
  SplitCommand(Session* owner, Join join, std::string_view name, size_t pieces);
  void piece_sent() { ++waiting_; }
  void piece_replied(size_t index, std::string_view bytes);
  void piece_failed(std::string_view text);
  void all_sent();                     // or given up
  void refuse(std::string_view text);  // "handle request, ..." for the whole command

 private:
  void check();
  std::string joined() const;

  Join join_;
  std::string name_;  // lower case, for error texts
  std::vector<std::string> replies_;
  std::string refusal_;
  std::string failure_;
  size_t waiting_ = 0;
  bool sent_ = false;
};

// Sends the pieces of a SplitCommand in order, stopping at locked slots, full connections and
// migrations. Its session reads nothing meanwhile.
class Job final : public Waiter, public std::enable_shared_from_this<Job> {
 public:
  struct Piece {
    int slot = 0;
    std::string hash_key;  // empty: goes to the target of a migration unasked
    std::vector<std::string> argv;
  };

  Job(Loop& loop, Router& router, std::shared_ptr<SplitCommand> command, const Op& op, int database,
      size_t seed);
  void add(Piece piece) { pieces_.push_back(std::move(piece)); }
  // True if everything went out; otherwise the router keeps the job and the session is told later.
  bool start();
  void resume() override { run(); }

 private:
  friend class MigrationCall;
  void run();
  bool send_piece();
  void send_to_target(size_t index);
  void migrated_to_target();
  void migration_answered(std::string_view reply);
  void migration_failed(std::string text);
  void finish();

  Loop& loop_;
  Router& router_;
  std::shared_ptr<SplitCommand> command_;
  const Op& op_;
  const int database_;
  const size_t seed_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  bool running_ = false;
  bool waiting_ = false;
  bool finished_ = false;
};

std::string encode(std::span<const std::string> argv);
// "<int>", "<bulkbytes>" ... as codis-proxy names the type of a reply.
std::string_view type_name(std::string_view reply);

}  // namespace sf::codis
