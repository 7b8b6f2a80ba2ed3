// SLAVEOF, ROLE, PKCLUSTER ... and REPLICATION ...: words in, words out; the deeds are replica/'s
// (docs/COMMANDS.md).
#include <algorithm>
#include <array>
#include <functional>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/command/arg_reader.h"
#include "storage_node/command/command.h"
#include "storage_node/command/reply.h"
#include "storage_node/node.h"
#include "storage_node/replica/replica_service.h"
#include "storage_node/server/client_session.h"

namespace sf {
namespace {

constexpr int64_t kLeaseMaxMs = 600'000;
constexpr int64_t kWaitMaxMs = 3'600'000;

ReplicaService& service_of(CommandContext& ctx) {
  return static_cast<ReplicaService&>(*ctx.node.replication());
}

void reply_status(std::string& out, const Status& status) {
  if (status) {
    resp::status(out, "OK");
  } else {
    reply_error(out, status);
  }
}

// Verbs wait for the disk, so they run on a thread of their own and the client gets its answer
// later. Inside EXEC there is no later.
using Deed = std::function<void(SlotControl& control, std::string& out)>;

void run_deed(CommandContext& ctx, Deed deed) {
  ReplicaService& service = service_of(ctx);
  if (ctx.session == nullptr || !ctx.session->can_block()) {
    return deed(service.control(), ctx.out);
  }
  service.run_verb([core = service.core(), later = ctx.session->block(), deed = std::move(deed)] {
    std::string out;
    deed(core->control, out);
    core->verb_seq = core->state.engine.last_seq();
    later.send(std::move(out));
  });
}

void run_status(CommandContext& ctx, std::function<Status(SlotControl&)> deed) {
  run_deed(ctx, [deed = std::move(deed)](SlotControl& control, std::string& out) {
    reply_status(out, deed(control));
  });
}

// ---- arguments

SlotSet read_slots(ArgReader& args) {
  auto slots = SlotSet::parse(args.next());
  if (!slots) args.fail(cat("ERR ", slots.status().text()));
  return slots ? *slots : SlotSet::of(0);
}

std::string read_plan_name(ArgReader& args) {
  std::string plan(args.next());
  bool fits =
      !plan.empty() && plan.size() <= 64 && std::all_of(plan.begin(), plan.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.' || c == ':' || c == '-';
      });
  if (!fits) args.fail("ERR a plan is 1 to 64 letters, digits, '_', '.', ':' or '-'");
  return plan;
}

PlanEpoch read_plan(ArgReader& args) {
  PlanEpoch by;
  by.plan = read_plan_name(args);
  by.epoch =
      static_cast<uint64_t>(args.next_int_in(1, INT64_MAX, "ERR an epoch is a positive integer"));
  return by;
}

HostPort read_master(ArgReader& args) {
  HostPort master;
  master.host = args.next();
  if (master.host.empty()) args.fail("ERR Invalid master host");
  master.port = static_cast<int>(args.next_int_in(1, 65535, "ERR Invalid master port"));
  return master;
}

Position read_position(ArgReader& args) {
  Position position;
  position.history = args.next();
  if (!is_history_id(position.history)) args.fail("ERR a history is 40 hex digits");
  position.seq =
      static_cast<uint64_t>(args.next_int_in(0, INT64_MAX, "ERR a sequence is an integer from 0"));
  return position;
}

bool no_one(CommandContext& ctx, size_t at) {
  return ctx.argv.size() > at + 1 && equals_ignore_case(ctx.argv[at], "NO") &&
         equals_ignore_case(ctx.argv[at + 1], "ONE");
}

// FORCE in any of the spellings Pika's tools use.
bool read_force(ArgReader& args) {
  return args.keyword("FORCE") || args.keyword("-f");
}

void field(std::string& out, std::string_view name, std::string_view value) {
  resp::bulk(out, name);
  resp::bulk(out, value);
}

void field(std::string& out, std::string_view name, uint64_t value) {
  resp::bulk(out, name);
  resp::integer(out, static_cast<int64_t>(value));
}

// ---- the whole node

void slaveof(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  NodeConfig& config = ctx.node.config();
  if (no_one(ctx, 1)) {
    args.take(2);
    bool force = read_force(args);
    if (!args.finish()) return reply_error(ctx.out, args.error());
    return run_status(ctx, [&config, force](SlotControl& control) {
      Status done = control.slave_of_no_one(force);
      if (done) config.remember("slaveof", "");
      return done;
    });
  }
  HostPort master = read_master(args);
  read_force(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_status(ctx, [&config, master](SlotControl& control) {
    Status done = control.slave_of(master);
    if (done) config.remember("slaveof", master.text());
    return done;
  });
}

void role(CommandContext& ctx) {
  ReplicaService& service = service_of(ctx);
  auto line = replication_role(service.state(), service.feeds());
  ctx.out += line;
}

// ---- PKCLUSTER

void slots_slaveof(CommandContext& ctx, ArgReader& args) {
  if (no_one(ctx, 2)) {
    args.take(2);
    SlotSet slots = read_slots(args);
    if (!args.finish()) return reply_error(ctx.out, args.error());
    return run_status(
        ctx, [slots](SlotControl& control) { return control.slots_slave_of_no_one(slots); });
  }
  HostPort master = read_master(args);
  SlotSet slots = read_slots(args);
  bool force = read_force(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_status(ctx, [master, slots, force](SlotControl& control) {
    return control.slots_slave_of(master, slots, force);
  });
}

void info_slot(CommandContext& ctx, ArgReader& args) {
  if (!args.keyword("SLOT")) return reply_error(ctx.out, kSyntaxError);
  SlotSet slots = read_slots(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  ReplicaService& service = service_of(ctx);
  resp::bulk(ctx.out, slot_info_text(service.state(), service.feeds(), slots));
}

void epoch(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  PlanEpoch by = read_plan(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_status(ctx, [slots, by](SlotControl& control) { return control.announce_epoch(slots, by); });
}

void reply_fence(std::string& out, const Result<FenceAnswer>& answer) {
  if (!answer) return reply_error(out, answer.status());
  resp::array(out, 6);
  field(out, "history", answer->end.history);
  field(out, "seq", answer->end.seq);
  field(out, "time_ms", static_cast<uint64_t>(answer->time_ms));
}

// Writers between their read and their commit end first: what they read is then final.
void let_writers_end(Engine& engine) {
  const KeyLocks::Held all = engine.key_locks().lock_all();
}

void fence_leased(CommandContext& ctx, const SlotSet& slots, const PlanEpoch& by, int64_t ms) {
  let_writers_end(ctx.engine);
  // At once, in the middle of a pause, if nothing stands in the way.
  if (auto answer = service_of(ctx).control().try_fence_leased(slots, by, ms)) {
    return reply_fence(ctx.out, *answer);
  }
  run_deed(ctx, [slots, by, ms, &engine = ctx.engine](SlotControl& control, std::string& out) {
    let_writers_end(engine);
    reply_fence(out, control.fence_leased(slots, by, ms));
  });
}

void fence(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  PlanEpoch by = read_plan(args);
  if (args.keyword("LEASE", 1)) {
    int64_t ms = args.next_int_in(1, kLeaseMaxMs, "ERR a lease is 1 to 600000 milliseconds");
    if (!args.finish()) return reply_error(ctx.out, args.error());
    return fence_leased(ctx, slots, by, ms);
  }
  if (!args.keyword("PERMANENT", 1)) args.fail(kSyntaxError);
  auto owner = parse_host_port(args.next());
  if (!owner) args.fail("ERR the new owner is host:port");
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_deed(ctx, [slots, by, owner = *owner](SlotControl& control, std::string& out) {
    reply_fence(out, control.fence_permanently(slots, by, owner));
  });
}

void unfence(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  PlanEpoch by = read_plan(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_status(ctx, [slots, by](SlotControl& control) { return control.unfence(slots, by); });
}

void promote(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  PlanEpoch by = read_plan(args);
  if (!args.keyword("FROM", 2)) args.fail(kSyntaxError);
  Position from = read_position(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_deed(ctx, [slots, by, from](SlotControl& control, std::string& out) {
    auto answer = control.promote(slots, by, from);
    if (!answer) return reply_error(out, answer.status());
    resp::array(out, 6);
    field(out, "applied", answer->applied);
    field(out, "history", answer->own.history);
    field(out, "seq", answer->own.seq);
  });
}

void promoted(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  std::string plan = read_plan_name(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const auto epochs = service_of(ctx).control().promoted(slots, plan);
  resp::array(ctx.out, epochs.size());
  for (const auto& [slot, epoch] : epochs) {
    resp::array(ctx.out, 2);
    resp::integer(ctx.out, slot);
    resp::integer(ctx.out, static_cast<int64_t>(epoch));
  }
}

void follow(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  PlanEpoch by = read_plan(args);
  HostPort master = read_master(args);
  if (!args.keyword("FROM", 2)) args.fail(kSyntaxError);
  Position from = read_position(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  run_status(ctx, [slots, by, master, from](SlotControl& control) {
    return control.follow(slots, by, master, from);
  });
}

void verify_read(CommandContext& ctx, ArgReader& args) {
  bool on = args.keyword("ON");
  if (!on && !args.keyword("OFF")) args.fail(kSyntaxError);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (ctx.session != nullptr) ctx.session->set_verify_reads(on);
  resp::status(ctx.out, "OK");
}

struct Verb {
  std::string_view name;
  void (*run)(CommandContext&, ArgReader&);
};

constexpr std::array kClusterVerbs = {
    Verb{"SLOTSSLAVEOF", slots_slaveof},
    Verb{"INFO", info_slot},
    Verb{"EPOCH", epoch},
    Verb{"FENCE", fence},
    Verb{"UNFENCE", unfence},
    Verb{"PROMOTE", promote},
    Verb{"PROMOTED", promoted},
    Verb{"FOLLOW", follow},
    Verb{"VERIFYREAD", verify_read},
};

template <size_t N>
void run_verb(CommandContext& ctx, const std::array<Verb, N>& verbs) {
  if (ctx.session != nullptr && !ctx.session->can_block()) {
    return reply_error(ctx.out, cat("ERR ", ctx.spec.name, " is not allowed in MULTI"));
  }
  for (const Verb& verb : verbs) {
    if (!equals_ignore_case(verb.name, ctx.argv[1])) continue;
    ArgReader args(ctx.argv, 2);
    return verb.run(ctx, args);
  }
  reply_error(ctx.out,
              cat("ERR unknown subcommand '", printable(ctx.argv[1]), "' of ", ctx.spec.name));
}

void pkcluster(CommandContext& ctx) {
  run_verb(ctx, kClusterVerbs);
}

// ---- REPLICATION

void positions(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = args.done() ? SlotSet::all() : read_slots(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  auto rows = slot_status(service_of(ctx).state(), slots);
  resp::array(ctx.out, rows.size());
  for (const SlotStatus& row : rows) {
    resp::array(ctx.out, 8);
    resp::integer(ctx.out, row.slot);
    resp::bulk(ctx.out, row.master ? "master" : "slave");
    resp::bulk(ctx.out, row.at.history.empty() ? "-" : row.at.history);
    resp::integer(ctx.out, static_cast<int64_t>(row.at.seq));
    resp::bulk(ctx.out, row.link);
    resp::bulk(ctx.out, row.fence);
    resp::bulk(ctx.out, row.from);
    resp::integer(ctx.out, row.lag);
  }
}

void replicas(CommandContext& ctx, ArgReader& args) {
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const std::vector<FeedReport> rows = service_of(ctx).feeds();
  const int64_t now_us = ctx.node.clock().mono_us();
  resp::array(ctx.out, rows.size());
  for (const FeedReport& row : rows) {
    resp::array(ctx.out, 20);
    field(ctx.out, "ip", row.ip);
    field(ctx.out, "port", static_cast<uint64_t>(row.port));
    field(ctx.out, "mode", row.full ? "full" : "slots");
    field(ctx.out, "state", row.state);
    field(ctx.out, "slots", row.slots.empty() ? "-" : row.slots.text());
    field(ctx.out, "copying", row.copying.empty() ? "-" : row.copying.text());
    field(ctx.out, "sent", row.sent);
    field(ctx.out, "applied", row.acked);
    field(ctx.out, "synced", row.synced);
    resp::bulk(ctx.out, "ack_age_ms");
    resp::integer(ctx.out, row.acked_us == 0 ? -1 : (now_us - row.acked_us) / 1000);
  }
}

void wait_applied(CommandContext& ctx, ArgReader& args) {
  SlotSet slots = read_slots(args);
  Position want = read_position(args);
  int64_t ms = args.next_int_in(0, kWaitMaxMs, "ERR timeout is not an integer or out of range");
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (ctx.session == nullptr) return resp::integer(ctx.out, 0);
  BlockedReply later = ctx.session->block();
  auto waiter = std::make_shared<uint64_t>(0);
  ReplicaService& service = service_of(ctx);
  auto there = service.control().wait_applied(
      slots, want, [later] { later.send(":1\r\n"); }, waiter.get());
  if (!there) {
    std::string text;
    reply_error(text, there.status());
    return later.send(std::move(text));
  }
  if (*there) return later.send(":1\r\n");
  std::weak_ptr<ReplicaService::Core> core = service.core();
  later.loop().call_after(ms * 1000, [core, waiter, later] {
    auto alive = core.lock();
    if (alive && alive->control.stop_waiting(*waiter)) later.send(":0\r\n");
  });
}

void sync_stream(CommandContext& ctx, ArgReader&) {
  auto message = wire::decode_replica(ctx.argv);
  if (!message) return reply_error(ctx.out, cat("ERR ", message.status().text()));
  if (ctx.session == nullptr) return reply_error(ctx.out, "ERR no connection");
  ReplicaService& service = service_of(ctx);
  Loop& loop = ctx.session->loop();
  auto sync = std::make_shared<wire::Sync>(std::get<wire::Sync>(std::move(*message)));
  ctx.session->take_over([&service, &loop, sync](TakenConnection connection) {
    service.feed(std::move(*sync), std::move(connection), loop);
  });
}

constexpr std::array kReplicationVerbs = {
    Verb{"POSITIONS", positions},
    Verb{"REPLICAS", replicas},
    Verb{"WAITAPPLIED", wait_applied},
    Verb{"SYNC", sync_stream},
};

void replication(CommandContext& ctx) {
  run_verb(ctx, kReplicationVerbs);
}

}  // namespace

void register_replication(CommandRegistry& registry) {
  register_waits(registry);
  registry.bind("SLAVEOF", slaveof);
  registry.bind("REPLICAOF", slaveof);
  registry.bind("ROLE", role);
  registry.bind("PKCLUSTER", pkcluster);
  registry.bind("REPLICATION", replication);
}

}  // namespace sf
