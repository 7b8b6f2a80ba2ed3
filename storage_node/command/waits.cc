// WAIT and WAITAOF: until full replicas have applied, or have on their disks, what the client wrote
// last. Redis's words and replies.
#include <algorithm>
#include <atomic>
#include <memory>

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

constexpr const char* kNotAnInteger = "ERR value is not an integer or out of range";

using Core = ReplicaService::Core;

ReplicaService& service_of(CommandContext& ctx) {
  return static_cast<ReplicaService&>(*ctx.node.replication());
}

// False: an error was replied.
bool is_master(CommandContext& ctx) {
  const std::lock_guard lock(service_of(ctx).state().mutex);
  if (!service_of(ctx).state().full) return true;
  reply_error(ctx.out, cat(ctx.spec.name,
                           " cannot be used with replica instances. Please also note that "
                           "since Redis 4.0 if a replica is configured to be writable (which "
                           "is not the default) writes to replicas are just local and are "
                           "not propagated."));
  return false;
}

int64_t read_timeout(ArgReader& args) {
  int64_t ms =
      args.next_int_in(INT64_MIN, INT64_MAX, "ERR timeout is not an integer or out of range");
  if (ms < 0) args.fail("ERR timeout is negative");
  return std::min<int64_t>(ms, INT64_MAX / 1000);
}

// One client's wait. Whatever ends it first replies; the rest finds it answered.
struct Pending {
  Pending(BlockedReply reply, std::weak_ptr<Core> of, uint64_t write)
      : later(reply), core(std::move(of)), seq(write) {}
  BlockedReply later;
  std::weak_ptr<Core> core;
  uint64_t seq;
  std::atomic<uint64_t> waiter{0};
  std::atomic<int> missing{0};  // conditions not met yet

  bool local(const Core& alive) const { return alive.synced_seq >= seq; }
};

void end_at_timeout(const std::shared_ptr<Pending>& pending, int64_t ms,
                    void (*reply)(const Pending&, const Core&)) {
  if (ms == 0) return;
  pending->later.loop().call_after(ms * 1000, [pending, reply] {
    auto alive = pending->core.lock();
    if (!alive) return;
    alive->acks.stop(pending->waiter);
    reply(*pending, *alive);
  });
}

// The client's own, or the newest verb's (FENCE, PROMOTE...), whoever said it.
uint64_t last_write(const CommandContext& ctx, const Core& core) {
  if (ctx.session == nullptr) return ctx.engine.last_seq();
  return std::max(ctx.session->last_write(), core.verb_seq.load());
}

// ---- WAIT

void reply_applied(const Pending& pending, const Core& core) {
  std::string out;
  resp::integer(out, core.acks.count(pending.seq, false));
  pending.later.send(std::move(out));
}

void wait(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const int64_t replicas = args.next_int_in(INT64_MIN, INT64_MAX, kNotAnInteger);
  const int64_t ms = read_timeout(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (!is_master(ctx)) return;
  const auto core = service_of(ctx).core();
  const uint64_t seq = last_write(ctx, *core);
  const int now = core->acks.count(seq, false);
  if (now >= replicas || ctx.session == nullptr || !ctx.session->can_block()) {
    return resp::integer(ctx.out, now);
  }
  auto pending = std::make_shared<Pending>(ctx.session->block(), core, seq);
  const int needed = static_cast<int>(std::min<int64_t>(replicas, INT32_MAX));
  auto waiter = core->acks.wait(seq, false, needed, [pending] {
    pending->later.loop().post([pending] {
      if (auto alive = pending->core.lock()) reply_applied(*pending, *alive);
    });
  });
  if (!waiter) {
    std::string text;
    reply_error(text, waiter.status());
    return pending->later.send(std::move(text));
  }
  if (*waiter == 0) return reply_applied(*pending, *core);
  pending->waiter = *waiter;
  end_at_timeout(pending, ms, reply_applied);
}

// ---- WAITAOF

void reply_synced(const Pending& pending, const Core& core) {
  std::string out;
  resp::array(out, 2);
  resp::integer(out, pending.local(core) ? 1 : 0);
  resp::integer(out, core.acks.count(pending.seq, true));
  pending.later.send(std::move(out));
}

// Any thread.
void condition_met(const std::shared_ptr<Pending>& pending) {
  if (--pending->missing > 0) return;
  pending->later.loop().post([pending] {
    if (auto alive = pending->core.lock()) reply_synced(*pending, *alive);
  });
}

void wait_aof(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const int64_t local =
      args.next_int_in(0, 1, "ERR value is out of range, must be between 0 and 1");
  const int64_t replicas =
      args.next_int_in(0, INT32_MAX, "ERR value is out of range, must be positive");
  const int64_t ms = read_timeout(args);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (!is_master(ctx)) return;
  ReplicaService& service = service_of(ctx);
  const auto core = service.core();
  const uint64_t seq = last_write(ctx, *core);
  const bool local_there = core->synced_seq >= seq;
  const int now = core->acks.count(seq, true);
  const bool met = (local == 0 || local_there) && now >= replicas;
  if (met || ctx.session == nullptr || !ctx.session->can_block()) {
    resp::array(ctx.out, 2);
    resp::integer(ctx.out, local_there ? 1 : 0);
    return resp::integer(ctx.out, now);
  }
  auto pending = std::make_shared<Pending>(ctx.session->block(), core, seq);
  pending->missing = 2;
  auto waiter =
      core->acks.wait(seq, true, static_cast<int>(replicas), [pending] { condition_met(pending); });
  if (!waiter) {
    std::string text;
    reply_error(text, waiter.status());
    return pending->later.send(std::move(text));
  }
  pending->waiter = *waiter;
  if (replicas > 0) service.ask_synced(seq);
  if (*waiter == 0) condition_met(pending);
  if (local == 1 && !local_there) {
    service.sync_here([pending](const Status& synced) {
      if (synced) return condition_met(pending);
      std::string text;
      reply_error(text, cat("ERR ", synced.text()));
      pending->later.send(std::move(text));
    });
  } else {
    condition_met(pending);
  }
  end_at_timeout(pending, ms, reply_synced);
}

}  // namespace

void register_waits(CommandRegistry& registry) {
  registry.bind("WAIT", wait);
  registry.bind("WAITAOF", wait_aof);
}

}  // namespace sf
