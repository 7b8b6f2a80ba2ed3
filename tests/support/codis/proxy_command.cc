#include "tests/support/codis/proxy_command.h"

#include "common/resp/encoder.h"
#include "common/resp/reply_parser.h"
#include "tests/support/codis/proxy_migration.h"
#include "tests/support/codis/proxy_session.h"

namespace sf::codis {
namespace {

class PieceCall final : public Call {
 public:
  PieceCall(std::shared_ptr<SplitCommand> command, size_t index, bool is_read)
      : command_(std::move(command)), index_(index), read_(is_read) {}
  void on_reply(std::string_view bytes) override { command_->piece_replied(index_, bytes); }
  void on_failure(std::string_view text) override { command_->piece_failed(text); }
  bool worth_sending() const override { return command_->session != nullptr || !read_; }

 private:
  std::shared_ptr<SplitCommand> command_;
  size_t index_;
  bool read_;
};

std::string error_reply(std::string_view where, std::string_view text) {
  std::string out;
  resp::error(out, cat("ERR ", where, ", ", text));
  return out;
}

int64_t element_count(std::string_view reply) {
  const auto number = parse_int64(reply.substr(1, reply.find('\r') - 1));
  return reply.starts_with('*') && number && *number > 0 ? *number : 0;
}

std::string_view first_line(std::string_view reply) {
  return reply.substr(1, reply.find('\r') - 1);
}

}  // namespace

std::string encode(std::span<const std::string> argv) {
  std::string out;
  resp::array(out, argv.size());
  for (const auto& arg : argv) resp::bulk(out, arg);
  return out;
}

std::string_view type_name(std::string_view reply) {
  switch (reply.empty() ? '\0' : reply[0]) {
    case '+':
      return "<string>";
    case '-':
      return "<error>";
    case ':':
      return "<int>";
    case '$':
      return "<bulkbytes>";
    case '*':
      return "<array>";
    default:
      return "<unknown>";
  }
}

void Pending::finish(std::string_view bytes) {
  done = true;
  if (session != nullptr) session->finished(*this, bytes);
}

void SingleCommand::on_failure(std::string_view text) {
  finish(error_reply("handle response", text));
}

SplitCommand::SplitCommand(Session* owner, Join join, std::string_view name, size_t pieces)
    : join_(join), name_(to_lower(name)), replies_(pieces) {
  session = owner;
}

void SplitCommand::piece_replied(size_t index, std::string_view bytes) {
  replies_[index] = bytes;
  --waiting_;
  check();
}

void SplitCommand::piece_failed(std::string_view text) {
  if (failure_.empty()) failure_ = text;
  --waiting_;
  check();
}

void SplitCommand::all_sent() {
  sent_ = true;
  check();
}

void SplitCommand::refuse(std::string_view text) {
  refusal_ = text;
}

void SplitCommand::check() {
  if (!sent_ || waiting_ > 0 || done) return;
  if (!refusal_.empty()) {
    finish(error_reply("handle request", refusal_));
  } else if (!failure_.empty()) {
    finish(error_reply("handle response", failure_));
  } else {
    finish(joined());
  }
}

// Each sub-reply must have the one shape codis-proxy expects; else the client gets a text about
// that and the server's own error is lost (3.2).
std::string SplitCommand::joined() const {
  if (join_ == Join::kOne) return replies_[0];
  std::string out;
  int64_t count = 0;
  if (join_ == Join::kMget) resp::array(out, replies_.size());
  for (const std::string& one : replies_) {
    const std::string bad = cat("bad ", name_, " resp: ", type_name(one));
    if (join_ == Join::kMget) {
      if (element_count(one) != 1) {
        return error_reply("handle response", cat(bad, " array.len = ", element_count(one)));
      }
      out.append(one, one.find('\n') + 1);
    } else if (join_ == Join::kMset) {
      if (one[0] != '+') {
        return error_reply("handle response", cat(bad, " value = ", first_line(one)));
      }
    } else {
      if (one[0] != ':' || one.size() != 4) {
        return error_reply("handle response", cat(bad, " value.len = ", first_line(one).size()));
      }
      count += one[1] == '0' ? 0 : 1;
    }
  }
  if (join_ == Join::kMset) return replies_[0];
  if (join_ == Join::kCount) resp::integer(out, count);
  return out;
}

Job::Job(Loop& loop, Router& router, std::shared_ptr<SplitCommand> command, const Op& op,
         int database, size_t seed)
    : loop_(loop),
      router_(router),
      command_(std::move(command)),
      op_(op),
      database_(database),
      seed_(seed) {}

bool Job::start() {
  run();
  if (finished_) return true;
  waiting_ = true;
  router_.keep(shared_from_this());
  return false;
}

void Job::run() {
  if (running_ || finished_) return;
  running_ = true;
  while (next_ < pieces_.size() && send_piece()) {
  }
  running_ = false;
  if (next_ == pieces_.size()) finish();
}

// False: the job has to wait and will be resumed.
bool Job::send_piece() {
  const Piece& piece = pieces_[next_];
  Slot& slot = router_.slot(piece.slot);
  if (slot.held) {
    slot.waiters.push_back(weak_from_this());
    router_.keep(shared_from_this());
    return false;
  }
  if (slot.backend == nullptr) {
    migration_failed("slot is not ready, may be offline");
    return false;
  }
  if (slot.migrate_from != nullptr && !piece.hash_key.empty()) {
    MigrationCall::start(loop_, slot, database_, seed_, shared_from_this(), piece);
    return false;
  }
  BackendConn& conn = router_.conn_for(slot, op_.for_replica(), database_, seed_);
  if (conn.full()) {
    conn.when_not_full(weak_from_this());
    router_.keep(shared_from_this());
    return false;
  }
  send_to_target(next_++);
  return true;
}

void Job::send_to_target(size_t index) {
  const Piece& piece = pieces_[index];
  Slot& slot = router_.slot(piece.slot);
  auto call = std::make_shared<PieceCall>(command_, index, op_.read_only());
  call->hold(&slot);
  command_->piece_sent();
  BackendConn& conn = router_.conn_for(slot, op_.for_replica(), database_, seed_);
  conn.send(encode(piece.argv), std::move(call));
}

void Job::migrated_to_target() {
  send_to_target(next_++);
  run();
}

void Job::migration_answered(std::string_view reply) {
  command_->piece_sent();
  command_->piece_replied(next_++, reply);
  run();
}

void Job::migration_failed(std::string text) {
  command_->refuse(text);
  next_ = pieces_.size();
  run();
}

void Job::finish() {
  if (finished_) return;
  finished_ = true;
  const auto self = shared_from_this();
  command_->all_sent();
  router_.forget(self);
  if (waiting_ && command_->session != nullptr) command_->session->job_finished();
}

}  // namespace sf::codis
