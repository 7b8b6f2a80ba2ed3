// Commands on keys whatever their type.
#include <algorithm>
#include <array>
#include <set>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "storage_node/command/key_scan.h"
#include "storage_node/command/run.h"
#include "storage_node/command/string_edit.h"
#include "storage_node/node.h"
#include "storage_node/server/watch_table.h"
#include "storage_node/types/collection.h"

namespace sf {

namespace {

constexpr std::string_view kNoSuchKey = "ERR no such key";

// Loads or answers the error.
std::optional<Loaded> load_or_reply(CommandContext& ctx, std::string_view key) {
  Result<Loaded> loaded = load_meta(ctx.engine, ctx.db, key);
  if (loaded) return std::move(*loaded);
  reply_error(ctx.out, loaded.status());
  return std::nullopt;
}

void cmd_del(CommandContext& ctx) {
  const std::set<std::string_view> names(ctx.argv.begin() + 1, ctx.argv.end());
  WriteTxn txn;
  int64_t live = 0;
  for (const std::string_view name : names) {
    const auto key = load_or_reply(ctx, name);
    if (!key) return;
    if (key->stored) erase_key(txn, ctx.db, name);
    if (*key) ++live;
  }
  if (commit_or_reply(ctx, std::move(txn))) resp::integer(ctx.out, live);
}

void cmd_exists(CommandContext& ctx) {
  int64_t live = 0;
  for (const std::string_view name : ctx.argv.subspan(1)) {
    const auto key = load_or_reply(ctx, name);
    if (!key) return;
    if (*key) ++live;
  }
  resp::integer(ctx.out, live);
}

void cmd_type(CommandContext& ctx) {
  const auto key = load_or_reply(ctx, ctx.argv[1]);
  if (key) resp::status(ctx.out, *key ? type_name((*key)->type) : "none");
}

// ---- expiry

struct ExpireRule {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;

  // Whether a key that expires at `before` (0: never) may be given `after`.
  bool allows(int64_t before, int64_t after) const {
    if (nx && before != 0) return false;
    if (xx && before == 0) return false;
    if (gt && (before == 0 || after <= before)) return false;
    return !(lt && before != 0 && after >= before);
  }
};

void read_expire_rule(ArgReader& args, ExpireRule* rule) {
  while (args.ok() && !args.done()) {
    if (args.keyword("NX")) {
      rule->nx = true;
    } else if (args.keyword("XX")) {
      rule->xx = true;
    } else if (args.keyword("GT")) {
      rule->gt = true;
    } else if (args.keyword("LT")) {
      rule->lt = true;
    } else {
      args.fail(cat("ERR Unsupported option ", args.peek()));
    }
  }
  if (rule->nx && (rule->xx || rule->gt || rule->lt)) {
    args.fail("ERR NX and XX, GT or LT options at the same time are not compatible");
  }
  if (rule->gt && rule->lt) {
    args.fail("ERR GT and LT options at the same time are not compatible");
  }
}

void expire(CommandContext& ctx, ExpireUnit unit, bool relative) {
  ArgReader args(ctx.argv);
  const std::string_view name = args.next();
  const std::string_view value_text = args.next();
  ExpireRule rule;
  read_expire_rule(args, &rule);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const auto parsed = parse_int64(value_text);
  if (!parsed) return reply_error(ctx.out, kNotInteger);
  const int64_t value = *parsed;
  const int64_t now = ctx.engine.expiry_now_ms(slot_of(name));
  const auto at = absolute_expiry(value, unit, relative, now);
  if (!at) {
    return reply_error(ctx.out,
                       cat("ERR invalid expire time in '", to_lower(ctx.spec.name), "' command"));
  }
  const auto key = load_or_reply(ctx, name);
  if (!key) return;
  if (!*key || !rule.allows((*key)->expire_ms, *at)) return resp::integer(ctx.out, 0);
  WriteTxn txn;
  if (*at <= now) {
    erase_key(txn, ctx.db, name);
  } else {
    put_expire(txn, ctx.db, name, **key, *at);
  }
  if (commit_or_reply(ctx, std::move(txn))) resp::integer(ctx.out, 1);
}

void cmd_expire(CommandContext& ctx) {
  expire(ctx, ExpireUnit::kSeconds, true);
}
void cmd_pexpire(CommandContext& ctx) {
  expire(ctx, ExpireUnit::kMilliseconds, true);
}
void cmd_expireat(CommandContext& ctx) {
  expire(ctx, ExpireUnit::kSeconds, false);
}
void cmd_pexpireat(CommandContext& ctx) {
  expire(ctx, ExpireUnit::kMilliseconds, false);
}

void cmd_persist(CommandContext& ctx) {
  const auto key = load_or_reply(ctx, ctx.argv[1]);
  if (!key) return;
  if (!*key || (*key)->expire_ms == 0) return resp::integer(ctx.out, 0);
  WriteTxn txn;
  put_expire(txn, ctx.db, ctx.argv[1], **key, 0);
  if (commit_or_reply(ctx, std::move(txn))) resp::integer(ctx.out, 1);
}

// -2: no key, -1: no expiry; else what `convert` makes of the expiry and the clock.
template <class Convert>
void reply_expiry(CommandContext& ctx, Convert convert) {
  const auto key = load_or_reply(ctx, ctx.argv[1]);
  if (!key) return;
  if (!*key) return resp::integer(ctx.out, -2);
  const int64_t at = (*key)->expire_ms;
  if (at == 0) return resp::integer(ctx.out, -1);
  resp::integer(ctx.out, convert(at, ctx.engine.expiry_now_ms(slot_of(ctx.argv[1]))));
}

void cmd_ttl(CommandContext& ctx) {
  reply_expiry(
      ctx, [](int64_t at, int64_t now) { return (std::max<int64_t>(0, at - now) + 500) / 1000; });
}
void cmd_pttl(CommandContext& ctx) {
  reply_expiry(ctx, [](int64_t at, int64_t now) { return std::max<int64_t>(0, at - now); });
}
void cmd_expiretime(CommandContext& ctx) {
  reply_expiry(ctx, [](int64_t at, int64_t) { return (at + 500) / 1000; });
}
void cmd_pexpiretime(CommandContext& ctx) {
  reply_expiry(ctx, [](int64_t at, int64_t) { return at; });
}

// ---- moving and copying

void rename(CommandContext& ctx, bool only_new) {
  const std::string_view from = ctx.argv[1];
  const std::string_view to = ctx.argv[2];
  const auto source = load_or_reply(ctx, from);
  if (!source) return;
  if (!*source) return reply_error(ctx.out, kNoSuchKey);
  const auto target = load_or_reply(ctx, to);
  if (!target) return;
  if (only_new && *target) return resp::integer(ctx.out, 0);
  if (from != to) {
    WriteTxn txn;
    const Status copied = copy_key(ctx.engine, txn, ctx.db, from, **source, ctx.db, to, *target);
    if (!copied) return reply_error(ctx.out, copied);
    erase_key(txn, ctx.db, from);
    if (!commit_or_reply(ctx, std::move(txn))) return;
  }
  if (only_new) return resp::integer(ctx.out, 1);
  resp::status(ctx.out, "OK");
}

void cmd_rename(CommandContext& ctx) {
  rename(ctx, false);
}
void cmd_renamenx(CommandContext& ctx) {
  rename(ctx, true);
}

// The target's key in another db is not among the locked ones: it is locked here, in the order of
// the stripes where possible; where not, the command asks to be tried again rather than wait in a
// circle.
void cmd_copy(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::string_view from = args.next();
  const std::string_view to = args.next();
  int64_t db = ctx.db;
  bool replace = false;
  while (args.ok() && !args.done()) {
    if (args.keyword("DB", 1)) {
      db = args.next_int();
      if (args.ok() && (db < 0 || db >= ctx.node.config().integer("databases"))) {
        args.fail("ERR DB index is out of range");
      }
    } else if (args.keyword("REPLACE")) {
      replace = true;
    } else {
      args.fail(kSyntaxError);
    }
  }
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (db == ctx.db && from == to) {
    return reply_error(ctx.out, "ERR source and destination objects are the same");
  }
  KeyLocks::Held held;
  const std::array<std::string_view, 2> locked = {from, to};
  if (db != ctx.db &&
      !ctx.engine.key_locks().try_lock_more(static_cast<int>(db), to, ctx.db, locked, &held)) {
    return reply_error(ctx.out, "TRYAGAIN the destination is being written, try again");
  }
  const auto source = load_or_reply(ctx, from);
  if (!source) return;
  const Result<Loaded> target = load_meta(ctx.engine, static_cast<int>(db), to);
  if (!target) return reply_error(ctx.out, target.status());
  if (!*source || (*target && !replace)) return resp::integer(ctx.out, 0);
  WriteTxn txn;
  const Status copied =
      copy_key(ctx.engine, txn, ctx.db, from, **source, static_cast<int>(db), to, *target);
  if (!copied) return reply_error(ctx.out, copied);
  if (!commit_or_reply(ctx, std::move(txn))) return;
  ctx.node.watches().touch(static_cast<int>(db), to);
  resp::integer(ctx.out, 1);
}

// ---- walking

std::pair<std::string, std::string> db_range(int db) {
  return {slot_prefix(db, 0), slot_prefix(db, kSlotCount)};
}

void cmd_scan(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const auto cursor = parse_uint64(args.next());
  if (!cursor) args.fail("ERR invalid cursor");
  ScanOptions options;
  read_scan_options(args, true, &options);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const auto [begin, end] = db_range(ctx.db);
  reply_scan(ctx, cat("scan ", ctx.db), begin, end, *cursor, options);
}

void cmd_keys(CommandContext& ctx) {
  const auto [begin, end] = db_range(ctx.db);
  const std::string_view pattern = ctx.argv[1];
  std::string found;
  Result<std::string> walked = std::string();
  bool full = false;
  {
    ArrayReply reply(found);
    walked = walk_keys(ctx, begin, end, INT64_MAX, [&](std::string_view key, const MetaFields&) {
      if (pattern == "*" || glob_match(pattern, key)) reply.bulk(key);
      return !reply.full();
    });
    full = reply.full();
  }
  if (full) return reply_error(ctx.out, kReplyTooLarge);
  if (!walked) return reply_error(ctx.out, walked.status());
  ctx.out.append(found);
}

// A slot by its share of the keys, then a key by a random place among the slot's first thousand.
void cmd_randomkey(CommandContext& ctx) {
  Random random(Random::system_seed());
  for (int attempt = 0; attempt < 20; ++attempt) {
    const int64_t all = ctx.engine.key_count(ctx.db);
    if (all <= 0) break;
    auto place = static_cast<int64_t>(random.below(static_cast<uint64_t>(all)));
    int slot = 0;
    for (; slot < kSlotCount - 1 && place >= ctx.engine.key_count(ctx.db, slot); ++slot) {
      place -= ctx.engine.key_count(ctx.db, slot);
    }
    place = std::min<int64_t>(place, 1000);
    std::optional<std::string> chosen;
    const std::string begin = slot_prefix(ctx.db, slot);
    const Result<std::string> walked = walk_keys(ctx, begin, prefix_end(begin), 2000,
                                                 [&](std::string_view key, const MetaFields&) {
                                                   chosen = key;
                                                   return place-- > 0;
                                                 });
    if (!walked) return reply_error(ctx.out, walked.status());
    if (chosen) return resp::bulk(ctx.out, *chosen);
  }
  resp::nil(ctx.out);
}

// ---- looking inside

std::string_view encoding_of(const Meta& meta) {
  const bool small = meta.size <= 128;
  switch (meta.type) {
    case KeyType::kString:
      if (meta.value().size() <= 20 && parse_int64(meta.value())) return "int";
      return meta.value().size() <= 44 ? "embstr" : "raw";
    case KeyType::kHash:
      return small ? "listpack" : "hashtable";
    case KeyType::kList:
      return "quicklist";
    case KeyType::kSet:
      return "hashtable";
    case KeyType::kZset:
      return small ? "listpack" : "skiplist";
  }
  return "raw";
}

void cmd_object(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const bool encoding = args.keyword("ENCODING", 1);
  const bool refcount = !encoding && args.keyword("REFCOUNT", 1);
  const bool idle = !encoding && !refcount && args.keyword("IDLETIME", 1);
  if (!encoding && !refcount && !idle) {
    return reply_error(ctx.out, cat("ERR unknown subcommand or wrong number of arguments for '",
                                    printable(ctx.argv[1]), "'. Try OBJECT HELP."));
  }
  const std::string_view name = args.next();
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const auto key = load_or_reply(ctx, name);
  if (!key) return;
  if (!*key) return resp::nil(ctx.out);
  if (encoding) return resp::bulk(ctx.out, encoding_of(**key));
  resp::integer(ctx.out, refcount ? 1 : 0);
}

// Stored bytes; collections by the mean of their first entries.
void memory_usage(CommandContext& ctx, ArgReader& args) {
  const std::string_view name = args.next();
  int64_t samples = 5;
  if (args.keyword("SAMPLES", 1)) samples = args.next_int();
  if (args.ok() && samples < 0) args.fail(kSyntaxError);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const auto key = load_or_reply(ctx, name);
  if (!key) return;
  if (!*key) return resp::nil(ctx.out);
  const Meta& meta = **key;
  auto bytes = static_cast<int64_t>(kPrefixBytes + name.size() + meta.stored.size());
  if (meta.type != KeyType::kString) {
    KeyTxn keys(ctx.engine, ctx.db);
    const std::string prefix = data_prefix(ctx.db, name, meta.version);
    int64_t seen = 0;
    int64_t seen_bytes = 0;
    Cursor at = keys.scan(Cf::kData, prefix, prefix_end(prefix), 0, KeyTxn::From::kFirst);
    for (; at.valid() && (samples == 0 || seen < samples); at.next()) {
      ++seen;
      seen_bytes += static_cast<int64_t>(at.suffix().size() + at.value().size());
    }
    if (seen > 0) bytes += seen_bytes * static_cast<int64_t>(meta.size) / seen;
  }
  resp::integer(ctx.out, bytes);
}

void cmd_memory(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  if (args.keyword("USAGE", 1)) return memory_usage(ctx, args);
  reply_error(ctx.out, cat("ERR unknown subcommand or wrong number of arguments for '",
                           printable(ctx.argv[1]), "'. Try MEMORY HELP."));
}

}  // namespace

void register_keys(CommandRegistry& registry) {
  registry.bind("DEL", cmd_del);
  registry.bind("UNLINK", cmd_del);
  registry.bind("EXISTS", cmd_exists);
  registry.bind("TOUCH", cmd_exists);
  registry.bind("TYPE", cmd_type);
  registry.bind("EXPIRE", cmd_expire);
  registry.bind("PEXPIRE", cmd_pexpire);
  registry.bind("EXPIREAT", cmd_expireat);
  registry.bind("PEXPIREAT", cmd_pexpireat);
  registry.bind("PERSIST", cmd_persist);
  registry.bind("TTL", cmd_ttl);
  registry.bind("PTTL", cmd_pttl);
  registry.bind("EXPIRETIME", cmd_expiretime);
  registry.bind("PEXPIRETIME", cmd_pexpiretime);
  registry.bind("RENAME", cmd_rename);
  registry.bind("RENAMENX", cmd_renamenx);
  registry.bind("COPY", cmd_copy);
  registry.bind("SCAN", cmd_scan);
  registry.bind("KEYS", cmd_keys);
  registry.bind("RANDOMKEY", cmd_randomkey);
  registry.bind("OBJECT", cmd_object);
  registry.bind("MEMORY", cmd_memory);
}

}  // namespace sf
