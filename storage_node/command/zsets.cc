// Sorted set commands on members and counts; ranges and algebra are in files of their own.
#include <optional>
#include <vector>

#include "common/base/coding.h"
#include "storage_node/command/collection_scan.h"
#include "storage_node/command/random_reply.h"
#include "storage_node/command/zset_families.h"
#include "storage_node/types/number.h"

namespace sf {

namespace {

struct ZaddCall {
  std::string_view key;
  ZaddFlags flags;
  bool count_changed = false;
  std::vector<double> scores;
  std::vector<std::string_view> members;
};

void read_flags(ArgReader& args, ZaddCall* call) {
  while (true) {
    if (args.keyword("NX")) {
      call->flags.nx = true;
    } else if (args.keyword("XX")) {
      call->flags.xx = true;
    } else if (args.keyword("GT")) {
      call->flags.gt = true;
    } else if (args.keyword("LT")) {
      call->flags.lt = true;
    } else if (args.keyword("CH")) {
      call->count_changed = true;
    } else if (args.keyword("INCR")) {
      call->flags.incr = true;
    } else {
      return;
    }
  }
}

void check_flags(ArgReader& args, const ZaddFlags& flags, size_t pairs) {
  if (flags.nx && flags.xx) {
    args.fail("ERR XX and NX options at the same time are not compatible");
  }
  if ((flags.gt && flags.nx) || (flags.lt && flags.nx) || (flags.gt && flags.lt)) {
    args.fail("ERR GT, LT, and/or NX options at the same time are not compatible");
  }
  if (flags.incr && pairs > 1) {
    args.fail("ERR INCR option supports a single increment-element pair");
  }
}

void zadd(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  ZaddCall call;
  call.key = args.next();
  read_flags(args, &call);
  if (args.left() == 0 || args.left() % 2 != 0) args.fail(kSyntaxError);
  check_flags(args, call.flags, args.left() / 2);
  while (args.ok() && !args.done()) {
    call.scores.push_back(args.next_double());
    call.members.push_back(args.next());
  }
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Zset zset(keys.open(call.key, KeyType::kZset));
    int64_t added = 0;
    int64_t updated = 0;
    ZaddResult last;
    for (size_t i = 0; i < call.members.size() && keys.ok(); ++i) {
      last = zset_add(zset, call.members[i], call.scores[i], call.flags);
      added += last.what == ZaddResult::What::kAdded ? 1 : 0;
      updated += last.what == ZaddResult::What::kUpdated ? 1 : 0;
    }
    if (!call.flags.incr) {
      resp::integer(ctx.out, call.count_changed ? added + updated : added);
    } else if (last.what == ZaddResult::What::kNothing) {
      resp::nil(ctx.out);
    } else {
      resp::bulk_double(ctx.out, last.score);
    }
  });
}

void zincrby(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  double by = args.next_double();
  auto member = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    resp::bulk_double(ctx.out, zset_add(zset, member, by, {.incr = true}).score);
  });
}

void zrem(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto members = args.rest();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    int64_t removed = 0;
    for (auto member : members) {
      auto score = zset.score(member);
      if (!score) continue;
      zset.remove(member, *score);
      ++removed;
    }
    resp::integer(ctx.out, removed);
  });
}

void reply_score(std::string& out, std::optional<double> score) {
  score ? resp::bulk_double(out, *score) : resp::nil(out);
}

void zscore(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto member = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    reply_score(ctx.out, Zset(keys.open(key, KeyType::kZset)).score(member));
  });
}

void zmscore(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto members = args.rest();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    resp::array(ctx.out, members.size());
    for (auto member : members) reply_score(ctx.out, zset.score(member));
  });
}

void zcard(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    resp::integer(ctx.out, static_cast<int64_t>(keys.open(key, KeyType::kZset).size()));
  });
}

void zcount(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto min = args.next();
  auto range = parse_score_range(min, args.next());
  if (!range) args.fail(kNotScoreRange);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    resp::integer(ctx.out, static_cast<int64_t>(zset.count_by_score(*range)));
  });
}

void zlexcount(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto min = args.next();
  auto range = parse_lex_range(min, args.next());
  if (!range) args.fail(kNotLexRange);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    resp::integer(ctx.out, static_cast<int64_t>(zset.count_by_lex(*range)));
  });
}

void reply_rank(CommandContext& ctx, bool reverse) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto member = args.next();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    auto rank = Zset(keys.open(key, KeyType::kZset)).rank(member, reverse);
    rank ? resp::integer(ctx.out, static_cast<int64_t>(*rank)) : resp::nil(ctx.out);
  });
}

void zrank(CommandContext& ctx) {
  reply_rank(ctx, false);
}
void zrevrank(CommandContext& ctx) {
  reply_rank(ctx, true);
}

void pop(CommandContext& ctx, bool highest) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  int64_t count = 1;
  if (!args.done()) count = args.next_count();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    ScoredMembers popped;
    if (count > 0) popped = zset.by_rank(0, count - 1, highest);
    zset.remove_walked(popped, !highest, highest);
    reply_scored(ctx.out, popped, true);
  });
}

void zpopmin(CommandContext& ctx) {
  pop(ctx, false);
}
void zpopmax(CommandContext& ctx) {
  pop(ctx, true);
}

double score_of_value(std::string_view stored) {
  return score_of(big64(stored.data()));
}

void zscan(CommandContext& ctx) {
  scan_collection(ctx, KeyType::kZset,
                  [](ArrayReply& reply, std::string_view member, std::string_view score) {
                    reply.bulk(member);
                    reply.score(score_of_value(score));
                  });
}

void zrandmember(CommandContext& ctx) {
  reply_random(ctx, KeyType::kZset, "WITHSCORES",
               [](ArrayReply& reply, const Entry& entry, bool with_score) {
                 reply.bulk(entry.field);
                 if (with_score) reply.score(score_of_value(entry.value));
               });
}

}  // namespace

void register_zsets(CommandRegistry& registry) {
  registry.bind("ZADD", zadd);
  registry.bind("ZINCRBY", zincrby);
  registry.bind("ZREM", zrem);
  registry.bind("ZSCORE", zscore);
  registry.bind("ZMSCORE", zmscore);
  registry.bind("ZCARD", zcard);
  registry.bind("ZCOUNT", zcount);
  registry.bind("ZLEXCOUNT", zlexcount);
  registry.bind("ZRANK", zrank);
  registry.bind("ZREVRANK", zrevrank);
  registry.bind("ZPOPMIN", zpopmin);
  registry.bind("ZPOPMAX", zpopmax);
  registry.bind("ZSCAN", zscan);
  registry.bind("ZRANDMEMBER", zrandmember);
  register_zset_ranges(registry);
  register_zset_algebra(registry);
}

}  // namespace sf
