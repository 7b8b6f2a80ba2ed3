// Set commands.
#include "storage_node/types/set.h"

#include <limits>

#include "storage_node/command/collection_scan.h"
#include "storage_node/command/random_reply.h"
#include "storage_node/command/run.h"

namespace sf {

namespace {

// Applies `change` to each member and replies how many times it was true.
void change_members(CommandContext& ctx, bool (*change)(Collection&, std::string_view)) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto members = args.rest();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& set = keys.open(key, KeyType::kSet);
    int64_t changed = 0;
    for (size_t i = 0; i < members.size() && keys.ok(); ++i) {
      changed += change(set, members[i]) ? 1 : 0;
    }
    resp::integer(ctx.out, changed);
  });
}

void sadd(CommandContext& ctx) {
  change_members(ctx, set_add);
}
void srem(CommandContext& ctx) {
  change_members(ctx, set_remove);
}

void reply_members(std::string& out, const std::vector<std::string>& members) {
  resp::array(out, members.size());
  for (const auto& member : members) resp::bulk(out, member);
}

void smembers(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& set = keys.open(key, KeyType::kSet);
    ArrayReply reply(keys, ctx.out);
    for (Cursor at = set.scan(); at.valid(); at.next()) reply.bulk(at.suffix());
  });
}

void scard(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, static_cast<int64_t>(keys.open(key, KeyType::kSet).size()));
  });
}

void sismember(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto member = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, keys.open(key, KeyType::kSet).has(member) ? 1 : 0);
  });
}

void smismember(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto members = args.rest();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& set = keys.open(key, KeyType::kSet);
    resp::array(ctx.out, members.size());
    for (auto member : members) resp::integer(ctx.out, set.has(member) ? 1 : 0);
  });
}

void spop(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  std::optional<int64_t> count;
  if (args.left() == 1) count = args.next_count();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& set = keys.open(key, KeyType::kSet);
    Random random(Random::system_seed());
    auto drawn = pop_random(set, static_cast<uint64_t>(count.value_or(1)), random);
    if (!count) return drawn.empty() ? resp::nil(ctx.out) : resp::bulk(ctx.out, drawn[0].field);
    resp::array(ctx.out, drawn.size());
    for (const Entry& entry : drawn) resp::bulk(ctx.out, entry.field);
  });
}

void srandmember(CommandContext& ctx) {
  reply_random(ctx, KeyType::kSet, "",
               [](ArrayReply& reply, const Entry& entry, bool) { reply.bulk(entry.field); });
}

void smove(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto from = args.next();
  auto to = args.next();
  auto member = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& source = keys.open(from, KeyType::kSet);
    if (!source.exists()) return resp::integer(ctx.out, 0);
    Collection& target = keys.open(to, KeyType::kSet);
    bool there = source.has(member);
    if (there && from != to) {
      set_remove(source, member);
      set_add(target, member);
    }
    resp::integer(ctx.out, there ? 1 : 0);
  });
}

Sets open_all(KeyTxn& keys, std::span<const std::string_view> names) {
  Sets sets;
  for (auto name : names) sets.push_back(&keys.open(name, KeyType::kSet));
  return sets;
}

std::vector<std::string> intersect(const Sets& sets) {
  return set_intersection(sets);
}

using Algebra = std::vector<std::string> (*)(const Sets&);

void reply_algebra(CommandContext& ctx, Algebra algebra) {
  ArgReader args(ctx.argv);
  auto names = args.rest();
  run(ctx, args, Reads::kMany,
      [&](KeyTxn& keys) { reply_members(ctx.out, algebra(open_all(keys, names))); });
}

void store_algebra(CommandContext& ctx, Algebra algebra) {
  ArgReader args(ctx.argv);
  auto to = args.next();
  auto names = args.rest();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    auto members = algebra(open_all(keys, names));
    Collection& target = keys.replace(to, KeyType::kSet);
    for (const auto& member : members) target.put(member, {});
    target.grow(static_cast<int64_t>(members.size()));
    resp::integer(ctx.out, static_cast<int64_t>(members.size()));
  });
}

void sinter(CommandContext& ctx) {
  reply_algebra(ctx, intersect);
}
void sunion(CommandContext& ctx) {
  reply_algebra(ctx, set_union);
}
void sdiff(CommandContext& ctx) {
  reply_algebra(ctx, set_difference);
}
void sinterstore(CommandContext& ctx) {
  store_algebra(ctx, intersect);
}
void sunionstore(CommandContext& ctx) {
  store_algebra(ctx, set_union);
}
void sdiffstore(CommandContext& ctx) {
  store_algebra(ctx, set_difference);
}

void sintercard(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  int64_t numkeys = args.next_int("ERR numkeys should be greater than 0");
  if (numkeys < 1) args.fail("ERR numkeys should be greater than 0");
  if (args.ok() && static_cast<uint64_t>(numkeys) > args.left()) {
    args.fail("ERR Number of keys can't be greater than number of args");
  }
  auto names = args.take(static_cast<size_t>(numkeys));
  int64_t limit = 0;
  while (args.keyword("LIMIT", 1)) limit = args.next_count("ERR LIMIT can't be negative");
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    uint64_t most =
        limit == 0 ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(limit);
    auto members = set_intersection(open_all(keys, names), most);
    resp::integer(ctx.out, static_cast<int64_t>(members.size()));
  });
}

void sscan(CommandContext& ctx) {
  scan_collection(
      ctx, KeyType::kSet,
      [](ArrayReply& reply, std::string_view member, std::string_view) { reply.bulk(member); });
}

}  // namespace

void register_sets(CommandRegistry& registry) {
  registry.bind("SADD", sadd);
  registry.bind("SREM", srem);
  registry.bind("SMEMBERS", smembers);
  registry.bind("SCARD", scard);
  registry.bind("SISMEMBER", sismember);
  registry.bind("SMISMEMBER", smismember);
  registry.bind("SPOP", spop);
  registry.bind("SRANDMEMBER", srandmember);
  registry.bind("SMOVE", smove);
  registry.bind("SINTER", sinter);
  registry.bind("SUNION", sunion);
  registry.bind("SDIFF", sdiff);
  registry.bind("SINTERSTORE", sinterstore);
  registry.bind("SUNIONSTORE", sunionstore);
  registry.bind("SDIFFSTORE", sdiffstore);
  registry.bind("SINTERCARD", sintercard);
  registry.bind("SSCAN", sscan);
}

}  // namespace sf
