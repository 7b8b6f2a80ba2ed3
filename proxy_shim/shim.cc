#include "proxy_shim/shim.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/random.h"
#include "proxy_shim/control/succession.h"

namespace sf {
namespace {

constexpr int kFolderFormat = 1;
constexpr int64_t kRedialMs = 100;
constexpr int64_t kCompareMs = 2'000;  // of one question about a replaced master

// What a changed plan may not change: where the move goes, and what the processes were started
// with.
Status check_change(const MovePlan& before, const MovePlan& now) {
  const auto refuse = [](const char* key, const std::string& was, const std::string& is) {
    return Status::refused(cat("plan key ", key, " was ", was, " and is ", is,
                               " now: addresses, passwords and more slots can be taken over, this "
                               "cannot"));
  };
  if (before.id != now.id) return refuse("plan", before.id, now.id);
  if (before.unit != now.unit) {
    return refuse("unit", std::string(unit_text(before.unit)), std::string(unit_text(now.unit)));
  }
  if (before.old_side.kind != now.old_side.kind) {
    return refuse("old.kind", std::string(kind_text(before.old_side.kind)),
                  std::string(kind_text(now.old_side.kind)));
  }
  const std::tuple<const char*, int, int> groups[] = {
      {"source_group", before.source_group, now.source_group},
      {"target_group", before.target_group, now.target_group},
      {"shim_group", before.shim_group, now.shim_group}};
  for (const auto& [key, was, is] : groups) {
    if (was != is) return refuse(key, std::to_string(was), std::to_string(is));
  }
  return Status::ok();
}

std::string changes_between(const MovePlan& before, const MovePlan& now) {
  std::string out;
  const auto say = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  const auto side = [&](const char* name, const PlanSide& was, const PlanSide& is) {
    if (!(was.master == is.master)) {
      say(cat(name, " master ", was.master.text(), " -> ", is.master.text()));
    }
    if (was.password != is.password) say(cat(name, " password"));
  };
  side("old", before.old_side, now.old_side);
  side("new", before.new_side, now.new_side);
  if (!(before.slots == now.slots))
    say(cat("slots ", before.slots.text(), " -> ", now.slots.text()));
  if (!(before.stay == now.stay)) say(cat("stay ", before.stay.text(), " -> ", now.stay.text()));
  if (before.max_pause_ms != now.max_pause_ms) {
    say(cat("max_pause_ms ", before.max_pause_ms, " -> ", now.max_pause_ms));
  }
  if (before.hold_share_percent != now.hold_share_percent) {
    say(cat("hold_share_percent ", before.hold_share_percent, " -> ", now.hold_share_percent));
  }
  if (before.units_in_flight != now.units_in_flight) {
    say(cat("units_in_flight ", before.units_in_flight, " -> ", now.units_in_flight));
  }
  if (before.reads != now.reads || before.compare_percent != now.compare_percent) {
    say(cat("reads ", before.reads, " -> ", now.reads,
            now.reads == "compare" ? cat(" ", now.compare_percent, " %") : std::string()));
  }
  if (before.guard != now.guard) say(cat("guard ", before.guard, " -> ", now.guard));
  return out.empty() ? "nothing that matters here; everything was judged anew" : out;
}

DataRules rules_of(const MovePlan& plan) {
  return {parse_policy(plan.reads).value_or(ReadPolicy::kOwner), plan.compare_percent,
          parse_guard(plan.guard).value_or(Guard::kOff)};
}

}  // namespace

Shim::Shim(ShimOptions options, Log log) : options_(std::move(options)), log_(std::move(log)) {
  run_id_ = Random(Random::system_seed()).hex(40);
  options_.data.run_id = run_id_;
}

Shim::~Shim() {
  stop();
}

std::shared_ptr<MoveControl> Shim::control() const {
  const std::lock_guard lock(control_mutex_);
  return control_;
}

ControlPorts Shim::control_ports() {
  return {store_.get(), plane_.get(), &stats_, &clock_,     log_,
          run_id_,      options_.dir, this,    heals_.get()};
}

void Shim::set_control(std::shared_ptr<MoveControl> control) {
  const std::lock_guard lock(control_mutex_);
  control_.swap(control);
}

Status Shim::start() {
  Result<MovePlan> plan = MovePlan::load(options_.plan_file);
  if (!plan) return plan.status();
  plan_id_ = plan->id;
  Status status = open_state(*plan);
  const ServerKind kind = plan->old_side.kind;
  options_.data.transactions = kind == ServerKind::kNode || kind == ServerKind::kRedis;
  options_.data.rules = rules_of(*plan);
  if (status) plane_ = make_data_plane(options_.data, log_.tagged("data"));
  if (status) status = reach_servers(*plan);
  if (status && options_.adopt) status = adopt(*plan);
  if (status) status = control_->settle();
  if (status) status = serve();
  return status;
}

Status Shim::open_state(const MovePlan& plan) {
  Result<std::unique_ptr<StateFolder>> folder =
      StateFolder::open(options_.dir, "slotferry-shim", kFolderFormat);
  if (!folder) return folder.status();
  folder_ = std::move(*folder);
  Result<std::unique_ptr<StateStore>> store =
      StateStore::open(options_.dir, plan, options_.init, &clock_, options_.adopt);
  if (!store) return store.status();
  store_ = std::move(*store);
  heals_ = std::make_unique<HealList>(store_.get(), log_.tagged("heal"));
  store_->on_entry([this](uint64_t n, const std::string& line) { feed_.publish(n, line); });
  return Status::ok();
}

Status Shim::reach_servers(const MovePlan& plan) {
  const int64_t deadline = clock_.mono_us() + (options_.init ? 0 : options_.backend_wait_ms * 1000);
  for (;;) {
    auto control = MoveControl::reach(plan, control_ports());
    if (control) {
      set_control(std::move(*control));
      return Status::ok();
    }
    const Code code = control.status().code();
    const bool may_come = code == Code::kUnavailable || code == Code::kTimeout;
    if (may_come && clock_.mono_us() >= deadline) {
      return Status::unavailable(
          cat(control.status().text(),
              ": a start needs both masters, for they say who owns the slots. Start that one, or "
              "name its group's new master in the plan and start with --adopt"));
    }
    if (!may_come) return control.status();
    // Nothing tells when a server comes up; asking again is all there is.
    std::this_thread::sleep_for(std::chrono::milliseconds(kRedialMs));
  }
}

Status Shim::serve() {
  plane_->on_hold_overflow([this] { control()->interrupt("too much was held"); });
  plane_->on_stranger([this] {
    if (const auto now = control()) now->look_now();
  });
  // Facts before the first client: a dashboard's first INFO must be answered sensibly.
  control_->look();
  Status status = plane_->start(control_->make_table());
  if (!status) return status;
  pages_ = std::make_unique<AdminPages>(
      [this] {
        auto now = control();
        return std::shared_ptr<const ShimReport>(now, &now->report());
      },
      &feed_, options_.admin.password);
  status = pages_->start();
  if (!status) return status;
  admin_ = std::make_unique<AdminServer>(
      options_.admin,
      [this] {
        auto now = control();
        return std::shared_ptr<AdminCommands>(now, &now->commands());
      },
      pages_->port(), log_.tagged("admin"));
  status = admin_->start();
  if (!status) return status;
  control_->begin();
  store_->audit({{"what", "shim serves"},
                 {"run_id", run_id_},
                 {"port", plane_->port()},
                 {"admin_port", admin_->port()}});
  return Status::ok();
}

// ---- a changed plan

Status Shim::reload(const std::string& from, bool may_lose,
                    std::function<void(Result<std::string>)> done) {
  const std::lock_guard lock(reload_mutex_);
  if (stopping_) return Status::refused("the shim stops");
  if (reloading_.exchange(true)) return Status::refused("a changed plan is being taken over");
  if (reloader_.joinable()) reloader_.join();  // it has said that it ended, as its last deed
  reloader_ = std::thread([this, from, may_lose, done = std::move(done)] {
    Result<std::string> changes = take_over(from, may_lose);
    if (!changes) {
      log_.warning(cat("the plan was not taken over: ", changes.status().text()));
      store_->audit(
          {{"what", "reload refused"}, {"from", from}, {"text", changes.status().text()}});
    }
    reloading_ = false;
    done(std::move(changes));
  });
  return Status::ok();
}

Status Shim::check_successors(MoveControl& before, const MovePlan& plan, bool may_lose,
                              std::string* said) {
  for (const PairSide side : {PairSide::kOld, PairSide::kNew}) {
    const bool is_new = side == PairSide::kNew;
    const PlanSide& was = is_new ? before.plan().new_side : before.plan().old_side;
    const PlanSide& is = is_new ? plan.new_side : plan.old_side;
    const SlotSet slots = before.owned_by(side);
    if (was.master == is.master || slots.empty()) continue;
    const Status still = before.hold_still(side);
    if (!still && still.code() != Code::kTimeout) return still;  // a hung master keeps its writes
    Status status = check_successor(side, was, is, slots, may_lose, "SHIM RELOAD LOSE", said);
    if (!status) return status;
  }
  return Status::ok();
}

Status Shim::check_successor(PairSide side, const PlanSide& was, const PlanSide& is,
                             const SlotSet& slots, bool may_lose, const char* word,
                             std::string* said) {
  const Succession found =
      compare_successor(was.kind, was, is, slots, "slotferry-shim-succession", kCompareMs);
  if (found.text.empty()) return Status::ok();
  store_->audit({{"what", "successor compared"}, {"side", side_name(side)}, {"text", found.text}});
  log_.warning(found.text);
  *said += cat("; ", found.text);
  if (found.verdict == Succession::Verdict::kGone || may_lose) return Status::ok();
  return Status::refused(cat(found.text, ". Make ", was.master.text(),
                             " the group's first server again, which loses nothing "
                             "(docs/RUNBOOK.md, planned promote), or give it up: ",
                             word));
}

Status Shim::adopt(const MovePlan& plan) {
  const PairMasters before = store_->masters();
  SlotSet owned[2] = {plan.stay, SlotSet()};
  for (const auto& [slot, record] : store_->records()) {
    owned[record.phase != SlotPhase::kOld].add(slot);
  }
  std::string said;  // is in the log
  for (const PairSide side : {PairSide::kOld, PairSide::kNew}) {
    const bool is_new = side == PairSide::kNew;
    const PlanSide& is = is_new ? plan.new_side : plan.old_side;
    const std::string& address = is_new ? before.new_side : before.old_side;
    const SlotSet& slots = owned[is_new];
    if (address == is.master.text() || slots.empty()) continue;
    const std::optional<HostPort> master = parse_host_port(address);
    if (!master) return Status::corrupt(cat("the record names no former master: ", address));
    // Its password is not kept: a group has one, and another one is told as an answer that settles
    // nothing.
    PlanSide was = is;
    was.master = *master;
    Status status = check_successor(side, was, is, slots, options_.adopt_lose,
                                    "start with --adopt-lose", &said);
    if (!status) return status;
  }
  return store_->adopt_plan(plan);
}

Result<std::string> Shim::take_over(const std::string& from, bool may_lose) {
  const std::shared_ptr<MoveControl> before = control();
  Result<MovePlan> plan = MovePlan::load(options_.plan_file);
  if (!plan) return plan.status();
  Status status = check_change(before->plan(), *plan);
  if (!status) return status;
  auto reached = MoveControl::reach(*plan, control_ports());
  if (!reached) return reached.status();
  const std::shared_ptr<MoveControl> after = std::move(*reached);
  before->stop();
  const auto frozen = before->frozen();  // by the operator: that stays
  std::string said;
  status = check_successors(*before, *plan, may_lose, &said);
  if (!status) {
    before->move_on(frozen);
    before->begin();
    return status;
  }
  status = store_->adopt_plan(*plan);
  if (status) status = after->settle();
  if (status) {
    after->inherit(*before);
    after->look();
    set_control(after);
    after->begin();
    // The workers go by the former table until they have this one.
    status = after->take_over();
  } else if (const Status back = store_->adopt_plan(before->plan()); !back) {
    log_.error(cat("the record keeps the plan that was not taken over: ", back.text()));
  }
  if (!status) {
    if (control() == before) {
      before->move_on(frozen);
      before->begin();
    }
    return status;
  }
  if (!(rules_of(before->plan()) == rules_of(*plan))) plane_->set_rules(rules_of(*plan));
  const std::string changes = changes_between(before->plan(), *plan) + said;
  log_.info(cat("plan taken over: ", changes));
  store_->audit({{"what", "plan reloaded"}, {"from", from}, {"changes", changes}});
  return changes;
}

void Shim::stop() {
  {
    const std::lock_guard lock(reload_mutex_);
    stopping_ = true;
  }
  if (reloader_.joinable()) reloader_.join();
  const auto now = control();
  if (now) now->stop();
  if (plane_) plane_->shut_down(options_.drain_ms);
  // Every write was answered or is noted: the list is whole.
  if (plane_ && heals_ && heals_->is_open()) {
    heals_->take_from(*plane_);
    if (const Status status = heals_->close(); !status) log_.error(status.text());
  }
  if (pages_) pages_->stop();
  if (admin_) admin_->stop();
  if (admin_ && store_) store_->audit({{"what", "shim stops"}, {"run_id", run_id_}});
  admin_.reset();
  pages_.reset();
  set_control(nullptr);
  plane_.reset();
}

}  // namespace sf
