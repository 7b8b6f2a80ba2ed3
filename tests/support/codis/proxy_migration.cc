#include "tests/support/codis/proxy_migration.h"

#include "common/resp/encoder.h"
#include "common/resp/reply_parser.h"

namespace sf::codis {
namespace {

constexpr std::string_view kTagoneTimeoutMs = "3000";
constexpr int kAsksAtOnce = 5;
constexpr int kPauseMaxMs = 20;

std::string wrapper_request(const Job::Piece& piece) {
  std::string out;
  resp::array(out, piece.argv.size() + 2);
  resp::bulk(out, "SLOTSMGRT-EXEC-WRAPPER");
  resp::bulk(out, piece.hash_key);
  for (const auto& arg : piece.argv) resp::bulk(out, arg);
  return out;
}

std::string_view text_of(std::string_view line_reply) {
  return line_reply.substr(1, line_reply.size() - 3);
}

std::string value_text(const Reply& reply) {
  return reply.type == Reply::Type::kInteger ? std::to_string(reply.integer) : reply.text;
}

}  // namespace

void MigrationCall::start(Loop& loop, Slot& slot, int database, size_t seed,
                          std::shared_ptr<Job> job, const Job::Piece& piece) {
  ++slot.forwarding;
  std::make_shared<MigrationCall>(loop, slot, database, seed, std::move(job), piece)->ask();
}

MigrationCall::MigrationCall(Loop& loop, Slot& slot, int database, size_t seed,
                             std::shared_ptr<Job> job, const Job::Piece& piece)
    : loop_(loop),
      slot_(slot),
      database_(database),
      seed_(seed),
      semi_async_(slot.as_filled.forward_method == 1),
      job_(std::move(job)),
      life_(job_->router_.life()) {
  if (semi_async_) {
    request_ = wrapper_request(piece);
  } else {
    const HostPort& target = slot.backend->host_port();
    request_ = resp::request({"SLOTSMGRTTAGONE", target.host, std::to_string(target.port),
                              kTagoneTimeoutMs, piece.hash_key});
  }
}

void MigrationCall::ask() {
  if (life_.expired()) return;
  slot_.migrate_from->conn(database_, seed_).send(request_, shared_from_this());
}

void MigrationCall::on_failure(std::string_view text) {
  finish_failed(std::string(text));
}

void MigrationCall::on_reply(std::string_view reply) {
  if (semi_async_) {
    on_wrapper_reply(reply);
  } else {
    on_tagone_reply(reply);
  }
}

void MigrationCall::on_tagone_reply(std::string_view reply) {
  if (reply[0] == ':') {
    job_->migrated_to_target();
    let_go();
  } else if (reply[0] == '-') {
    finish_failed(cat("bad slotsmgrt resp: ", text_of(reply)));
  } else {
    finish_failed(cat("bad slotsmgrt resp: should be integer, but got ", type_name(reply)));
  }
}

void MigrationCall::on_wrapper_reply(std::string_view reply) {
  const std::string bad = "bad slotsmgrt-exec-wrapper resp: ";
  if (reply[0] == '-') return finish_failed(cat(bad, text_of(reply)));
  if (reply[0] != '*') {
    return finish_failed(cat(bad, "should be integer, but got ", type_name(reply)));
  }
  const auto tree = decode_reply(reply);
  const size_t size = tree.is_ok() ? tree->elements.size() : 0;
  if (size != 2) return finish_failed(cat(bad, "array.len = ", size));
  const Reply& code = tree->elements[0];
  const std::string digits = value_text(code);
  if (code.type != Reply::Type::kInteger || digits.size() != 1) {
    const size_t at = reply.find('\n') + 1;
    return finish_failed(cat(bad, "type(array[0]) = ", type_name(reply.substr(at)),
                             ", len(array[0].value) = ", digits.size()));
  }
  if (code.integer == 0) {
    job_->migrated_to_target();
    let_go();
  } else if (code.integer == 1) {
    ask_again();
  } else if (code.integer == 2) {
    // "*2\r\n:2\r\n" is followed by the command's own reply.
    job_->migration_answered(reply.substr(8));
    let_go();
  } else {
    finish_failed(cat(bad, "[", digits, "] ", value_text(tree->elements[1])));
  }
}

void MigrationCall::ask_again() {
  const int pause_ms = asked_ < kAsksAtOnce ? 0 : std::min(asked_, kPauseMaxMs);
  ++asked_;
  const auto self = shared_from_this();
  if (pause_ms == 0) {
    loop_.post([self] { self->ask(); });
  } else {
    loop_.call_after(pause_ms * 1000, [self] { self->ask(); });
  }
}

void MigrationCall::finish_failed(std::string text) {
  job_->migration_failed(std::move(text));
  let_go();
}

void MigrationCall::let_go() {
  --slot_.forwarding;
  slot_.check_drained();
}

}  // namespace sf::codis
