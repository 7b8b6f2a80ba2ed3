// What the proxy asks the source of a migrating slot before each request (contracts/codis 1.6).
#pragma once

#include <memory>
#include <string>

#include "tests/support/codis/proxy_command.h"

namespace sf::codis {

// Asks until the source gives a final answer, without limit and even if the client is gone; then
// lets the job go on. Loop thread.
class MigrationCall final : public Call, public std::enable_shared_from_this<MigrationCall> {
 public:
  static void start(Loop& loop, Slot& slot, int database, size_t seed, std::shared_ptr<Job> job,
                    const Job::Piece& piece);

  MigrationCall(Loop& loop, Slot& slot, int database, size_t seed, std::shared_ptr<Job> job,
                const Job::Piece& piece);
  void on_reply(std::string_view reply) override;
  void on_failure(std::string_view text) override;

 private:
  void ask();
  void on_wrapper_reply(std::string_view reply);
  void on_tagone_reply(std::string_view reply);
  void ask_again();
  void finish_failed(std::string text);
  // The slot's read lock is given back after the request went to the target, never before.
  void let_go();

  Loop& loop_;
  Slot& slot_;
  const int database_;
  const size_t seed_;
  const bool semi_async_;
  std::shared_ptr<Job> job_;
  const std::weak_ptr<void> life_;  // of the router, and so of slot_
  std::string request_;
  int asked_ = 0;
};

}  // namespace sf::codis
