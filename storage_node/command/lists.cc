// List commands.
#include "storage_node/types/list.h"

#include <limits>

#include "common/base/strings.h"
#include "storage_node/command/run.h"

namespace sf {

namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

void push(CommandContext& ctx, ListEnd end, bool only_existing) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto elements = args.rest();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& list = keys.open(key, KeyType::kList);
    if (list.exists() || !only_existing) {
      for (auto element : elements) list_push(list, end, element);
    }
    resp::integer(ctx.out, static_cast<int64_t>(list.size()));
  });
}

void lpush(CommandContext& ctx) {
  push(ctx, ListEnd::kLeft, false);
}
void rpush(CommandContext& ctx) {
  push(ctx, ListEnd::kRight, false);
}
void lpushx(CommandContext& ctx) {
  push(ctx, ListEnd::kLeft, true);
}
void rpushx(CommandContext& ctx) {
  push(ctx, ListEnd::kRight, true);
}

void pop_many(KeyTxn& keys, Collection& list, ListEnd end, int64_t count, std::string& out) {
  uint64_t taken = std::min(list.size(), static_cast<uint64_t>(count));
  resp::array(out, taken);
  for (uint64_t i = 0; i < taken && keys.ok(); ++i) {
    resp::bulk(out, list_pop(list, end).value_or(""));
  }
}

void pop(CommandContext& ctx, ListEnd end) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  std::optional<int64_t> count;
  if (args.left() > 1) {
    args.fail(cat("ERR wrong number of arguments for '", to_lower(ctx.spec.name), "' command"));
  } else if (args.left() == 1) {
    count = args.next_count();
  }
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& list = keys.open(key, KeyType::kList);
    if (!list.exists()) return count ? resp::nil_array(ctx.out) : resp::nil(ctx.out);
    if (count) return pop_many(keys, list, end, *count, ctx.out);
    resp::bulk(ctx.out, list_pop(list, end).value_or(""));
  });
}

void lpop(CommandContext& ctx) {
  pop(ctx, ListEnd::kLeft);
}
void rpop(CommandContext& ctx) {
  pop(ctx, ListEnd::kRight);
}

void llen(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, static_cast<int64_t>(keys.open(key, KeyType::kList).size()));
  });
}

void lrange(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  int64_t start = args.next_int();
  int64_t stop = args.next_int();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& list = keys.open(key, KeyType::kList);
    ArrayReply reply(keys, ctx.out);
    auto range = clip_range(list.size(), start, stop);
    if (range) list_range(list, *range, [&](std::string_view element) { reply.bulk(element); });
  });
}

// An index that is only looked at once the key is known to be there.
std::optional<int64_t> late_index(KeyTxn& keys, std::string_view text) {
  auto index = parse_int64(text);
  if (!index) keys.fail(kNotInteger);
  return index;
}

void lindex(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto index_text = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& list = keys.open(key, KeyType::kList);
    if (!list.exists()) return resp::nil(ctx.out);
    auto index = late_index(keys, index_text);
    if (!index) return;
    auto element = list_at(list, *index);
    element ? resp::bulk(ctx.out, *element) : resp::nil(ctx.out);
  });
}

void lset(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto index_text = args.next();
  auto element = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& list = keys.open(key, KeyType::kList);
    if (!list.exists()) return keys.fail("ERR no such key");
    auto index = late_index(keys, index_text);
    if (!index) return;
    if (!list_set(list, *index, element)) return keys.fail("ERR index out of range");
    resp::status(ctx.out, "OK");
  });
}

void ltrim(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  int64_t start = args.next_int();
  int64_t stop = args.next_int();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    list_trim(keys.open(key, KeyType::kList), start, stop);
    resp::status(ctx.out, "OK");
  });
}

void lrem(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  int64_t count = args.next_int();
  auto element = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    uint64_t removed = list_remove(keys.open(key, KeyType::kList), count, element);
    resp::integer(ctx.out, static_cast<int64_t>(removed));
  });
}

void linsert(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  bool before = args.keyword("BEFORE");
  if (!before && !args.keyword("AFTER")) args.fail(kSyntaxError);
  auto pivot = args.next();
  auto element = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& list = keys.open(key, KeyType::kList);
    resp::integer(ctx.out, list.exists() ? list_insert(list, before, pivot, element) : 0);
  });
}

void move(CommandContext& ctx, ArgReader& args, std::string_view from, std::string_view to,
          ListEnd from_end, ListEnd to_end) {
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Collection& source = keys.open(from, KeyType::kList);
    if (!source.exists()) return resp::nil(ctx.out);
    Collection& target = keys.open(to, KeyType::kList);
    auto element = list_pop(source, from_end);
    if (!element) return;
    list_push(target, to_end, *element);
    resp::bulk(ctx.out, *element);
  });
}

void rpoplpush(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto from = args.next();
  auto to = args.next();
  move(ctx, args, from, to, ListEnd::kRight, ListEnd::kLeft);
}

ListEnd next_end(ArgReader& args) {
  if (args.keyword("LEFT")) return ListEnd::kLeft;
  if (!args.keyword("RIGHT")) args.fail(kSyntaxError);
  return ListEnd::kRight;
}

void lmove(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto from = args.next();
  auto to = args.next();
  ListEnd from_end = next_end(args);
  ListEnd to_end = next_end(args);
  move(ctx, args, from, to, from_end, to_end);
}

PosQuery read_pos_query(ArgReader& args) {
  PosQuery query;
  while (args.ok() && !args.done()) {
    if (args.keyword("RANK", 1)) {
      query.rank = args.next_int_in(-kMax, kMax,
                                    "ERR value is out of range, value must between "
                                    "-9223372036854775807 and 9223372036854775807");
      if (query.rank == 0) {
        args.fail(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
            "or use negative to start from the end of the list");
      }
    } else if (args.keyword("COUNT", 1)) {
      query.count = static_cast<uint64_t>(args.next_count("ERR COUNT can't be negative"));
    } else if (args.keyword("MAXLEN", 1)) {
      query.max_compared = static_cast<uint64_t>(args.next_count("ERR MAXLEN can't be negative"));
    } else {
      args.fail(kSyntaxError);
    }
  }
  return query;
}

void lpos(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto element = args.next();
  PosQuery query = read_pos_query(args);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    auto positions = list_positions(keys.open(key, KeyType::kList), element, query);
    if (!query.count) {
      return positions.empty() ? resp::nil(ctx.out) : resp::integer(ctx.out, positions[0]);
    }
    resp::array(ctx.out, positions.size());
    for (int64_t position : positions) resp::integer(ctx.out, position);
  });
}

}  // namespace

void register_lists(CommandRegistry& registry) {
  registry.bind("LPUSH", lpush);
  registry.bind("RPUSH", rpush);
  registry.bind("LPUSHX", lpushx);
  registry.bind("RPUSHX", rpushx);
  registry.bind("LPOP", lpop);
  registry.bind("RPOP", rpop);
  registry.bind("LLEN", llen);
  registry.bind("LRANGE", lrange);
  registry.bind("LINDEX", lindex);
  registry.bind("LSET", lset);
  registry.bind("LTRIM", ltrim);
  registry.bind("LREM", lrem);
  registry.bind("LINSERT", linsert);
  registry.bind("RPOPLPUSH", rpoplpush);
  registry.bind("LMOVE", lmove);
  registry.bind("LPOS", lpos);
}

}  // namespace sf
