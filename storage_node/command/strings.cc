// Strings as whole values: SET and GET in all their forms, counters, ranges.
#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/strings.h"
#include "storage_node/command/string_edit.h"
#include "storage_node/types/number.h"

namespace sf {

namespace {

int64_t now_for(CommandContext& ctx, std::string_view key) {
  return ctx.engine.expiry_now_ms(slot_of(key));
}

std::string invalid_expire(const CommandSpec& spec) {
  return cat("ERR invalid expire time in '", to_lower(spec.name), "' command");
}

// The expiry options that SET and GETEX share.
struct ExpireOption {
  bool given = false;
  int64_t expire_ms = 0;
};

bool read_expire(ArgReader& args, CommandContext& ctx, std::string_view key, ExpireOption* option) {
  struct Form {
    std::string_view word;
    ExpireUnit unit;
    bool relative;
  };
  static constexpr Form kForms[] = {{"EX", ExpireUnit::kSeconds, true},
                                    {"PX", ExpireUnit::kMilliseconds, true},
                                    {"EXAT", ExpireUnit::kSeconds, false},
                                    {"PXAT", ExpireUnit::kMilliseconds, false}};
  for (const Form& form : kForms) {
    if (!args.keyword(form.word, 1)) continue;
    if (option->given) args.fail(kSyntaxError);
    const int64_t value = args.next_int();
    if (!args.ok()) return true;
    const auto at = absolute_expiry(value, form.unit, form.relative, now_for(ctx, key));
    if (value <= 0 || !at) args.fail(invalid_expire(ctx.spec));
    *option = {true, at.value_or(0)};
    return true;
  }
  return false;
}

void reply_value_or_nil(std::string& out, const Loaded& loaded) {
  if (loaded) {
    resp::bulk(out, loaded->value());
  } else {
    resp::nil(out);
  }
}

struct SetOptions {
  bool nx = false;
  bool xx = false;
  bool get = false;
  bool keep_ttl = false;
  ExpireOption expire;
};

void read_set_options(ArgReader& args, CommandContext& ctx, std::string_view key,
                      SetOptions* options) {
  while (args.ok() && !args.done()) {
    if (args.keyword("NX")) {
      options->nx = true;
    } else if (args.keyword("XX")) {
      options->xx = true;
    } else if (args.keyword("GET")) {
      options->get = true;
    } else if (args.keyword("KEEPTTL")) {
      options->keep_ttl = true;
    } else if (!read_expire(args, ctx, key, &options->expire)) {
      args.fail(kSyntaxError);
    }
  }
  if (options->nx && options->xx) args.fail(kSyntaxError);
  if (options->keep_ttl && options->expire.given) args.fail(kSyntaxError);
}

void cmd_set(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::string_view key = args.next();
  const std::string_view value = args.next();
  SetOptions options;
  read_set_options(args, ctx, key, &options);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const Result<Loaded> before = options.get ? load_typed(ctx.engine, ctx.db, key, KeyType::kString)
                                            : load_meta(ctx.engine, ctx.db, key);
  if (!before) return reply_error(ctx.out, before.status());
  const bool exists = static_cast<bool>(*before);
  const bool wanted = !(options.nx && exists) && !(options.xx && !exists);
  if (wanted) {
    int64_t expire_ms = options.expire.expire_ms;
    if (options.keep_ttl && exists) expire_ms = (*before)->expire_ms;
    WriteTxn txn;
    put_string(txn, ctx.db, key, *before, value, expire_ms);
    if (!commit_or_reply(ctx, std::move(txn))) return;
  }
  if (options.get) return reply_value_or_nil(ctx.out, *before);
  if (wanted) return resp::status(ctx.out, "OK");
  resp::nil(ctx.out);
}

void cmd_get(CommandContext& ctx) {
  const StringEdit key(ctx, ctx.argv[1]);
  if (key.ok()) reply_value_or_nil(ctx.out, key.loaded());
}

void set_expiring(CommandContext& ctx, ExpireUnit unit) {
  ArgReader args(ctx.argv);
  const std::string_view key = args.next();
  const int64_t after = args.next_int();
  const std::string_view value = args.next();
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const auto at = absolute_expiry(after, unit, true, now_for(ctx, key));
  if (after <= 0 || !at) return reply_error(ctx.out, invalid_expire(ctx.spec));
  const Result<Loaded> before = load_meta(ctx.engine, ctx.db, key);
  if (!before) return reply_error(ctx.out, before.status());
  WriteTxn txn;
  put_string(txn, ctx.db, key, *before, value, *at);
  if (commit_or_reply(ctx, std::move(txn))) resp::status(ctx.out, "OK");
}

void cmd_setex(CommandContext& ctx) {
  set_expiring(ctx, ExpireUnit::kSeconds);
}

void cmd_psetex(CommandContext& ctx) {
  set_expiring(ctx, ExpireUnit::kMilliseconds);
}

void cmd_setnx(CommandContext& ctx) {
  const Result<Loaded> before = load_meta(ctx.engine, ctx.db, ctx.argv[1]);
  if (!before) return reply_error(ctx.out, before.status());
  if (*before) return resp::integer(ctx.out, 0);
  WriteTxn txn;
  put_string(txn, ctx.db, ctx.argv[1], *before, ctx.argv[2], 0);
  if (commit_or_reply(ctx, std::move(txn))) resp::integer(ctx.out, 1);
}

void cmd_getset(CommandContext& ctx) {
  StringEdit key(ctx, ctx.argv[1]);
  if (key.ok() && key.store(ctx.argv[2], 0)) reply_value_or_nil(ctx.out, key.loaded());
}

void cmd_getdel(CommandContext& ctx) {
  StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  if (!key.exists() || key.erase()) reply_value_or_nil(ctx.out, key.loaded());
}

void cmd_getex(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::string_view name = args.next();
  ExpireOption expire;
  bool persist = false;
  while (args.ok() && !args.done()) {
    if (args.keyword("PERSIST")) {
      persist = true;
    } else if (!read_expire(args, ctx, name, &expire)) {
      args.fail(kSyntaxError);
    }
  }
  if (persist && expire.given) args.fail(kSyntaxError);
  if (args.error() == kSyntaxError) return reply_error(ctx.out, args.error());
  StringEdit key(ctx, name);
  if (!key.ok()) return;
  // Redis looks at the time itself only if the key is there.
  if (!key.exists()) return resp::nil(ctx.out);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (key.exists() && expire.given && expire.expire_ms <= now_for(ctx, name)) {
    if (!key.erase()) return;
  } else if (key.exists() && (expire.given || (persist && key.expire_ms() != 0))) {
    if (!key.store(key.value(), expire.expire_ms)) return;
  }
  reply_value_or_nil(ctx.out, key.loaded());
}

// ---- many keys

void cmd_mget(CommandContext& ctx) {
  const size_t mark = ctx.out.size();
  resp::array(ctx.out, ctx.argv.size() - 1);
  for (const std::string_view key : ctx.argv.subspan(1)) {
    const Result<Loaded> loaded = load_meta(ctx.engine, ctx.db, key);
    if (!loaded) {
      ctx.out.resize(mark);
      return reply_error(ctx.out, loaded.status());
    }
    if (*loaded && (*loaded)->type == KeyType::kString) {
      resp::bulk(ctx.out, (*loaded)->value());
    } else {
      resp::nil(ctx.out);
    }
  }
}

// Sets all pairs in one batch; with `only_new`, nothing if one of the keys exists. nullopt:
// answered.
std::optional<bool> set_pairs(CommandContext& ctx, bool only_new) {
  if (ctx.argv.size() % 2 == 0) {
    reply_error(ctx.out,
                cat("ERR wrong number of arguments for '", to_lower(ctx.spec.name), "' command"));
    return std::nullopt;
  }
  std::map<std::string_view, std::string_view> pairs;  // the last value of a key counts
  for (size_t i = 1; i < ctx.argv.size(); i += 2) pairs[ctx.argv[i]] = ctx.argv[i + 1];
  WriteTxn txn;
  for (const auto& [key, value] : pairs) {
    const Result<Loaded> before = load_meta(ctx.engine, ctx.db, key);
    if (!before) {
      reply_error(ctx.out, before.status());
      return std::nullopt;
    }
    if (only_new && *before) return false;
    put_string(txn, ctx.db, key, *before, value, 0);
  }
  if (!commit_or_reply(ctx, std::move(txn))) return std::nullopt;
  return true;
}

void cmd_mset(CommandContext& ctx) {
  if (set_pairs(ctx, false)) resp::status(ctx.out, "OK");
}

void cmd_msetnx(CommandContext& ctx) {
  const auto done = set_pairs(ctx, true);
  if (done) resp::integer(ctx.out, *done ? 1 : 0);
}

// ---- counters

void add_integer(CommandContext& ctx, int64_t delta) {
  StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  const auto before = key.exists() ? parse_int64(key.value()) : std::optional<int64_t>(0);
  if (!before) return reply_error(ctx.out, kNotInteger);
  int64_t after = 0;
  if (__builtin_add_overflow(*before, delta, &after)) {
    return reply_error(ctx.out, "ERR increment or decrement would overflow");
  }
  if (key.store(std::to_string(after))) resp::integer(ctx.out, after);
}

void cmd_incr(CommandContext& ctx) {
  add_integer(ctx, 1);
}

void cmd_decr(CommandContext& ctx) {
  add_integer(ctx, -1);
}

void cmd_incrby(CommandContext& ctx) {
  const auto delta = parse_int64(ctx.argv[2]);
  if (!delta) return reply_error(ctx.out, kNotInteger);
  add_integer(ctx, *delta);
}

void cmd_decrby(CommandContext& ctx) {
  const auto delta = parse_int64(ctx.argv[2]);
  if (!delta) return reply_error(ctx.out, kNotInteger);
  if (*delta == INT64_MIN) return reply_error(ctx.out, "ERR decrement would overflow");
  add_integer(ctx, -*delta);
}

void cmd_incrbyfloat(CommandContext& ctx) {
  StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  const auto before = key.exists() ? parse_long_double(key.value()) : std::optional<long double>(0);
  const auto delta = parse_long_double(ctx.argv[2]);
  if (!before || !delta) return reply_error(ctx.out, kNotFloat);
  const long double after = *before + *delta;
  if (std::isnan(after) || std::isinf(after)) {
    return reply_error(ctx.out, "ERR increment would produce NaN or Infinity");
  }
  const std::string text = format_long_double(after);
  if (key.store(text)) resp::bulk(ctx.out, text);
}

// ---- parts

void cmd_append(CommandContext& ctx) {
  StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  if (key.value().size() + ctx.argv[2].size() > kMaxStringBytes) {
    return reply_error(ctx.out, kStringTooLong);
  }
  std::string value(key.value());
  value.append(ctx.argv[2]);
  if (key.store(value)) resp::integer(ctx.out, static_cast<int64_t>(value.size()));
}

void cmd_strlen(CommandContext& ctx) {
  const StringEdit key(ctx, ctx.argv[1]);
  if (key.ok()) resp::integer(ctx.out, static_cast<int64_t>(key.value().size()));
}

void cmd_getrange(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::string_view name = args.next();
  int64_t start = args.next_int();
  int64_t end = args.next_int();
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const StringEdit key(ctx, name);
  if (!key.ok()) return;
  const auto size = static_cast<int64_t>(key.value().size());
  if (start < 0 && end < 0 && start > end) return resp::bulk(ctx.out, "");
  if (start < 0) start = std::max<int64_t>(0, size + std::max(start, -size));
  if (end < 0) end = std::max<int64_t>(0, size + std::max(end, -size));
  end = std::min(end, size - 1);
  if (size == 0 || start > end) return resp::bulk(ctx.out, "");
  resp::bulk(ctx.out,
             key.value().substr(static_cast<size_t>(start), static_cast<size_t>(end - start + 1)));
}

void cmd_setrange(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::string_view name = args.next();
  const int64_t offset = args.next_int();
  const std::string_view piece = args.next();
  if (args.ok() && offset < 0) args.fail("ERR offset is out of range");
  if (!args.finish()) return reply_error(ctx.out, args.error());
  StringEdit key(ctx, name);
  if (!key.ok()) return;
  if (piece.empty()) return resp::integer(ctx.out, static_cast<int64_t>(key.value().size()));
  const auto at = static_cast<uint64_t>(offset);
  if (at > kMaxStringBytes || at + piece.size() > kMaxStringBytes) {
    return reply_error(ctx.out, kStringTooLong);
  }
  std::string value(key.value());
  if (value.size() < at + piece.size()) value.resize(at + piece.size(), '\0');
  value.replace(at, piece.size(), piece);
  if (key.store(value)) resp::integer(ctx.out, static_cast<int64_t>(value.size()));
}

}  // namespace

void register_strings(CommandRegistry& registry) {
  registry.bind("SET", cmd_set);
  registry.bind("GET", cmd_get);
  registry.bind("SETEX", cmd_setex);
  registry.bind("PSETEX", cmd_psetex);
  registry.bind("SETNX", cmd_setnx);
  registry.bind("GETSET", cmd_getset);
  registry.bind("GETDEL", cmd_getdel);
  registry.bind("GETEX", cmd_getex);
  registry.bind("MGET", cmd_mget);
  registry.bind("MSET", cmd_mset);
  registry.bind("MSETNX", cmd_msetnx);
  registry.bind("INCR", cmd_incr);
  registry.bind("DECR", cmd_decr);
  registry.bind("INCRBY", cmd_incrby);
  registry.bind("DECRBY", cmd_decrby);
  registry.bind("INCRBYFLOAT", cmd_incrbyfloat);
  registry.bind("APPEND", cmd_append);
  registry.bind("STRLEN", cmd_strlen);
  registry.bind("GETRANGE", cmd_getrange);
  registry.bind("SUBSTR", cmd_getrange);
  registry.bind("SETRANGE", cmd_setrange);
  register_bits(registry);
  register_bitfield(registry);
}

}  // namespace sf
