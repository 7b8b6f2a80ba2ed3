#include "migrator/move_context.h"

#include "common/base/random.h"

namespace sf {

std::unique_ptr<Peer> open_peer(const MovePlan& plan, bool old_side, const HostPort& server,
                                const std::vector<Argv>& greetings) {
  const PlanSide& side = old_side ? plan.old_side : plan.new_side;
  PeerOptions options;
  options.name = cat(old_side ? "old " : "new ", server == side.master ? "master" : "server");
  options.address = server;
  options.password = side.password;
  options.password_key = old_side ? "plan key old.password" : "plan key new.password";
  // The name tells the permit loop that this client of the old master is no stranger.
  if (side.kind == ServerKind::kRedis)
    options.greetings.push_back({"CLIENT", "SETNAME", "slotferry-run"});
  options.greetings.insert(options.greetings.end(), greetings.begin(), greetings.end());
  return std::make_unique<Peer>(std::move(options));
}

MoveContext::MoveContext(const MovePlan& move_plan, const Clock& the_clock, Journal& the_journal,
                         Output& output, StopFlag& stop_flag)
    : plan(move_plan),
      clock(the_clock),
      journal(the_journal),
      out(output),
      stop(stop_flag),
      dashboard(move_plan.dashboard, move_plan.product, move_plan.product_auth),
      shim(move_plan.shim),
      old_master(open_peer(move_plan, true, move_plan.old_side.master)),
      new_master(open_peer(move_plan, false, move_plan.new_side.master)) {}

Status MoveContext::ensure_lock(bool force) {
  const auto status = shim.status();
  if (!status) return status.status();
  const std::string their_plan = status_text(*status, "plan");
  if (their_plan != plan.id) {
    return Status::invalid(cat("the shim at ", plan.shim.admin.text(), " serves plan ",
                               their_plan.empty() ? "-" : their_plan, ", not ", plan.id,
                               "; start slotferry-shim with --plan and this plan file"));
  }
  auto name = journal.fact("lock-name");
  if (!name) {
    name = cat("run-", Random(Random::system_seed()).hex(12));
    const Status kept = journal.set_fact("lock-name", *name);
    if (!kept) return kept;
  }
  const bool held = lock.epoch != 0 && status_text(*status, "lock_owner") == *name &&
                    status_number(*status, "lock_epoch") == lock.epoch;
  if (held) return Status::ok();
  auto taken = shim.lock(*name, force);
  if (!taken) return taken.status();
  lock = *taken;
  return Status::ok();
}

Status MoveContext::release_lock() {
  if (lock.epoch == 0) return Status::ok();
  const Status status = shim.unlock(lock);
  lock = {};
  return status;
}

Status MoveContext::effect(std::string_view step, const std::string& what,
                           const std::function<Status()>& act) {
  const std::string name = cat("effect ", step);
  const Status written = journal.intent(name, what);
  if (!written) return written;
  const int64_t begun = clock.mono_us();
  const Status outcome = act();
  const std::string took = cat(" (", human_ms(clock.mono_us() - begun), ")");
  const Status recorded = outcome.is_ok()
                              ? journal.done(name, what + took)
                              : journal.failed(name, cat(what, ": ", outcome.text(), took));
  return outcome.is_ok() ? recorded : outcome;
}

Status MoveContext::wait_ms(int64_t ms) const {
  return stop.wait_ms(ms) ? Status::refused("stopped by the operator") : Status::ok();
}

}  // namespace sf
