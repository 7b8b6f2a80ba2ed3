// Hash commands.
#include "storage_node/types/hash.h"

#include <cmath>

#include "common/base/strings.h"
#include "storage_node/command/collection_scan.h"
#include "storage_node/command/random_reply.h"
#include "storage_node/command/run.h"
#include "storage_node/types/number.h"

namespace sf {

namespace {

// Sets all field-value pairs; how many fields were new is given to `reply`.
template <class Reply>
void set_pairs(CommandContext& ctx, Reply reply) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto pairs = args.rest();
  if (pairs.size() % 2 != 0) {
    args.fail(cat("ERR wrong number of arguments for '", to_lower(ctx.spec.name), "' command"));
  }
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& hash = keys.open(key, KeyType::kHash);
    int64_t added = 0;
    for (size_t i = 0; i < pairs.size() && keys.ok(); i += 2) {
      added += hash_set(hash, pairs[i], pairs[i + 1]) ? 1 : 0;
    }
    reply(added);
  });
}

void hset(CommandContext& ctx) {
  set_pairs(ctx, [&](int64_t added) { resp::integer(ctx.out, added); });
}

void hmset(CommandContext& ctx) {
  set_pairs(ctx, [&](int64_t) { resp::status(ctx.out, "OK"); });
}

void hsetnx(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto field = args.next();
  auto value = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& hash = keys.open(key, KeyType::kHash);
    bool there = hash.has(field);
    if (!there) hash_set(hash, field, value);
    resp::integer(ctx.out, there ? 0 : 1);
  });
}

void reply_optional(std::string& out, const std::optional<std::string>& value) {
  value ? resp::bulk(out, *value) : resp::nil(out);
}

void hget(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto field = args.next();
  run(ctx, args, Reads::kOne,
      [&](KeyTxn& keys) { reply_optional(ctx.out, keys.open(key, KeyType::kHash).get(field)); });
}

void hmget(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto fields = args.rest();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& hash = keys.open(key, KeyType::kHash);
    resp::array(ctx.out, fields.size());
    for (auto field : fields) reply_optional(ctx.out, hash.get(field));
  });
}

enum : unsigned { kFields = 1, kValues = 2 };

void reply_all(CommandContext& ctx, unsigned parts) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& hash = keys.open(key, KeyType::kHash);
    ArrayReply reply(keys, ctx.out);
    for (Cursor at = hash.scan(); at.valid(); at.next()) {
      if ((parts & kFields) != 0) reply.bulk(at.suffix());
      if ((parts & kValues) != 0) reply.bulk(at.value());
    }
  });
}

void hgetall(CommandContext& ctx) {
  reply_all(ctx, kFields | kValues);
}
void hkeys(CommandContext& ctx) {
  reply_all(ctx, kFields);
}
void hvals(CommandContext& ctx) {
  reply_all(ctx, kValues);
}

void hlen(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, static_cast<int64_t>(keys.open(key, KeyType::kHash).size()));
  });
}

void hdel(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto fields = args.rest();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& hash = keys.open(key, KeyType::kHash);
    int64_t removed = 0;
    for (auto field : fields) removed += hash_remove(hash, field) ? 1 : 0;
    resp::integer(ctx.out, removed);
  });
}

void hexists(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto field = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, keys.open(key, KeyType::kHash).has(field) ? 1 : 0);
  });
}

void hstrlen(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto field = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    auto value = keys.open(key, KeyType::kHash).get(field);
    resp::integer(ctx.out, value ? static_cast<int64_t>(value->size()) : 0);
  });
}

void hincrby(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto field = args.next();
  int64_t by = args.next_int();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, hash_increment(keys.open(key, KeyType::kHash), field, by));
  });
}

void hincrbyfloat(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto field = args.next();
  auto by = parse_long_double(args.next());
  if (!by) args.fail(kNotFloat);
  if (by && std::isinf(*by)) args.fail("ERR value is NaN or Infinity");
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::bulk(ctx.out, hash_increment_float(keys.open(key, KeyType::kHash), field, *by));
  });
}

void hscan(CommandContext& ctx) {
  scan_collection(ctx, KeyType::kHash,
                  [](ArrayReply& reply, std::string_view field, std::string_view value) {
                    reply.bulk(field);
                    reply.bulk(value);
                  });
}

void hrandfield(CommandContext& ctx) {
  reply_random(ctx, KeyType::kHash, "WITHVALUES",
               [](ArrayReply& reply, const Entry& entry, bool with_value) {
                 reply.bulk(entry.field);
                 if (with_value) reply.bulk(entry.value);
               });
}

}  // namespace

void register_hashes(CommandRegistry& registry) {
  registry.bind("HSET", hset);
  registry.bind("HMSET", hmset);
  registry.bind("HSETNX", hsetnx);
  registry.bind("HGET", hget);
  registry.bind("HMGET", hmget);
  registry.bind("HGETALL", hgetall);
  registry.bind("HKEYS", hkeys);
  registry.bind("HVALS", hvals);
  registry.bind("HLEN", hlen);
  registry.bind("HDEL", hdel);
  registry.bind("HEXISTS", hexists);
  registry.bind("HSTRLEN", hstrlen);
  registry.bind("HINCRBY", hincrby);
  registry.bind("HINCRBYFLOAT", hincrbyfloat);
  registry.bind("HSCAN", hscan);
  registry.bind("HRANDFIELD", hrandfield);
}

}  // namespace sf
