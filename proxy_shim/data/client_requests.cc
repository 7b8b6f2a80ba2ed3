// What becomes of a request that does not go straight to its owner: answered here, forwarded by way
// of the forwarder, queued in MULTI, or refused.
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/client_session.h"
#include "proxy_shim/data/migration_commands.h"
#include "proxy_shim/data/transaction.h"
#include "proxy_shim/data/worker.h"

namespace sf {

bool ClientSession::handle_special(const CommandSpec& spec, const CommandRule& rule,
                                   const Request& request) {
  if (!state_.is_authenticated && !spec.is(kCmdNoAuth)) {
    std::string out;
    no_auth(out);
    answer(out);
    return true;
  }
  if (handle_transaction(spec, rule, request)) return !std::exchange(retry_, false);
  if (state_.in_multi && spec.name != "EXEC" && spec.name != "DISCARD" && spec.name != "MULTI") {
    queue_in_multi(spec, rule, request);
    return true;
  }
  switch (rule.handling) {
    case Handling::kForward:
      return forward(&spec, request);
    case Handling::kMigration:
      return handle_migration(spec, request);
    case Handling::kLocal:
      run_local(rule, request);
      return true;
    case Handling::kRefuse:
      break;
  }
  std::string out;
  resp::error(out, cat("ERR '", to_lower(spec.name), "' is refused by slotferry-shim: ", rule.why));
  worker_.stats().rejected.add();
  answer(out);
  return true;
}

bool ClientSession::handle_unknown(const Request& request) {
  std::string out;
  if (!state_.is_authenticated) {
    no_auth(out);
  } else if (state_.in_multi || request.argv.size() < 2) {
    state_.multi_failed = true;
    unknown_command(out, request.argv);
  } else {
    return forward(nullptr, request);
  }
  answer(out);
  return true;
}

bool ClientSession::forward(const CommandSpec* spec, const Request& request) {
  state_.carries_data = true;
  ForwardRequest forwarded{spec, request.argv, request.raw, state_.db, false};
  std::string encoded;
  if (request.is_inline) {
    resp::request(encoded, request.argv);
    forwarded.raw = encoded;
  }
  return worker_.forwarder().submit(*this, forwarded);
}

bool ClientSession::handle_migration(const CommandSpec& spec, const Request& request) {
  MigrationAnswer verdict = judge_migration(spec, request.argv, worker_.routes());
  // Pacing is for the dashboard. A proxy's connection is shared, and a client that sends such a
  // command through it would make all others wait (T24).
  const bool paced = verdict.kind == MigrationAnswer::Kind::kPaced && !state_.carries_data;
  if (!paced && verdict.kind != MigrationAnswer::Kind::kExecute) {
    answer(verdict.reply);
    return true;
  }
  if (paced) {
    Pending* record = worker_.pool().take();
    record->started_us = worker_.now_us();
    enqueue(record);
    worker_.complete_later(record, std::move(verdict.reply), kMigrationPaceUs);
    return true;
  }
  state_.carries_data = true;
  const std::span<const std::string_view> inner = std::span(request.argv).subspan(2);
  const CommandSpec* inner_spec = find_command(inner[0]);
  std::string out(kWrapperPrefix);
  if (inner_spec != nullptr && !inner_spec->arity_ok(inner.size())) {
    wrong_arity(out, inner_spec->name);
    answer(out);
    return true;
  }
  const bool is_forwarded =
      inner_spec == nullptr ? inner.size() > 1
                            : worker_.commands().rule(*inner_spec).handling == Handling::kForward;
  if (!is_forwarded) {
    resp::error(out, cat("ERR '", printable(inner[0]), "' cannot run on one key's owner"));
    answer(out);
    return true;
  }
  std::string encoded;
  resp::request(encoded, inner);
  return worker_.forwarder().submit(*this, {inner_spec, inner, encoded, state_.db, true});
}

void ClientSession::run_local(const CommandRule& rule, const Request& request) {
  std::string out;
  const ServerView server = worker_.view(rule.wants_stats);
  LocalCall call{state_, server, request.argv, out};
  rule.local(call);
  answer(out);
  if (state_.wants_close) finish();
}

// Only the commands of the dashboard's promote are queued (contracts/codis 2); they have no effect
// that waiting for EXEC would change.
void ClientSession::queue_in_multi(const CommandSpec& spec, const CommandRule& rule,
                                   const Request& request) {
  std::string out;
  if (rule.in_multi && state_.multi_count < 64 && transaction_ == nullptr) {
    const ServerView server = worker_.view(rule.wants_stats);
    LocalCall call{state_, server, request.argv, state_.multi_replies};
    rule.local(call);
    ++state_.multi_count;
    resp::status(out, "QUEUED");
  } else {
    state_.multi_failed = true;
    resp::error(out,
                cat("ERR '", to_lower(spec.name),
                    "' inside MULTI is not passed on by slotferry-shim; send it without MULTI"));
  }
  answer(out);
}

}  // namespace sf
