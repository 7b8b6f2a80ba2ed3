// ZRANGE in all its forms and names, ZRANGESTORE, ZREMRANGEBY*.
#include <utility>

#include "storage_node/command/zset_families.h"
#include "storage_node/types/zset_algebra.h"

namespace sf {

namespace {

enum class By { kAny, kRank, kScore, kLex };  // kAny, kAnyOrder: the arguments say it

struct Form {
  By by = By::kAny;
  bool reverse = false;
  bool any_order = false;
};

struct RangeQuery {
  By by = By::kRank;
  Window window;
  bool with_scores = false;
  bool limited = false;
  int64_t start = 0;  // kRank
  int64_t stop = 0;
  ScoreRange scores;
  LexRange members;
};

void read_ends(ArgReader& args, std::string_view min, std::string_view max, RangeQuery* query) {
  if (query->by == By::kRank) {
    std::string_view both[] = {min, max};
    ArgReader ends(both, 0);
    query->start = ends.next_int();
    query->stop = ends.next_int();
    if (!ends.ok()) args.fail(ends.error());
    return;
  }
  if (query->window.reverse) std::swap(min, max);
  if (query->by == By::kScore) {
    auto range = parse_score_range(min, max);
    range ? static_cast<void>(query->scores = *range) : args.fail(kNotScoreRange);
  } else {
    auto range = parse_lex_range(min, max);
    range ? static_cast<void>(query->members = *range) : args.fail(kNotLexRange);
  }
}

RangeQuery read_query(ArgReader& args, Form form, bool may_have_scores) {
  RangeQuery query;
  auto min = args.next();
  auto max = args.next();
  while (args.ok() && !args.done()) {
    if (may_have_scores && args.keyword("WITHSCORES")) {
      query.with_scores = true;
    } else if (args.keyword("LIMIT", 2)) {
      query.window.offset = args.next_int();
      query.window.count = args.next_int();
      query.limited = query.window.count != -1;
    } else if (form.any_order && args.keyword("REV")) {
      form.any_order = false;
      form.reverse = true;
    } else if (form.by == By::kAny && args.keyword("BYLEX")) {
      form.by = By::kLex;
    } else if (form.by == By::kAny && args.keyword("BYSCORE")) {
      form.by = By::kScore;
    } else {
      args.fail(kSyntaxError);
    }
  }
  query.by = form.by == By::kAny ? By::kRank : form.by;
  query.window.reverse = form.reverse;
  if (query.limited && query.by == By::kRank) {
    args.fail(
        "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
  }
  if (query.with_scores && query.by == By::kLex) {
    args.fail("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
  }
  if (args.ok()) read_ends(args, min, max, &query);
  return query;
}

ScoredMembers select(Zset zset, const RangeQuery& query) {
  if (query.by == By::kRank) return zset.by_rank(query.start, query.stop, query.window.reverse);
  if (query.by == By::kScore) return zset.by_score(query.scores, query.window);
  return zset.by_lex(query.members, query.window);
}

void reply_range(CommandContext& ctx, Form form) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  RangeQuery query = read_query(args, form, true);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    ScoredMembers members = select(Zset(keys.open(key, KeyType::kZset)), query);
    reply_scored(ctx.out, members, query.with_scores);
  });
}

void zrange(CommandContext& ctx) {
  reply_range(ctx, {.by = By::kAny, .any_order = true});
}
void zrevrange(CommandContext& ctx) {
  reply_range(ctx, {.by = By::kRank, .reverse = true});
}
void zrangebyscore(CommandContext& ctx) {
  reply_range(ctx, {.by = By::kScore});
}
void zrevrangebyscore(CommandContext& ctx) {
  reply_range(ctx, {.by = By::kScore, .reverse = true});
}
void zrangebylex(CommandContext& ctx) {
  reply_range(ctx, {.by = By::kLex});
}
void zrevrangebylex(CommandContext& ctx) {
  reply_range(ctx, {.by = By::kLex, .reverse = true});
}

void zrangestore(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto to = args.next();
  auto from = args.next();
  RangeQuery query = read_query(args, {.by = By::kAny, .any_order = true}, false);
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    ScoredMembers members = select(Zset(keys.open(from, KeyType::kZset)), query);
    zset_store(keys.replace(to, KeyType::kZset), members);
    resp::integer(ctx.out, static_cast<int64_t>(members.size()));
  });
}

void remove_range(CommandContext& ctx, By by) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  RangeQuery query = read_query(args, {.by = by}, false);
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    Zset zset(keys.open(key, KeyType::kZset));
    ScoredMembers members = select(zset, query);
    bool from_low_end =
        by == By::kRank ? query.start == 0 : by == By::kScore && zset.low_end_in(query.scores);
    zset.remove_walked(members, from_low_end, false);
    resp::integer(ctx.out, static_cast<int64_t>(members.size()));
  });
}

void zremrangebyrank(CommandContext& ctx) {
  remove_range(ctx, By::kRank);
}
void zremrangebyscore(CommandContext& ctx) {
  remove_range(ctx, By::kScore);
}
void zremrangebylex(CommandContext& ctx) {
  remove_range(ctx, By::kLex);
}

}  // namespace

void register_zset_ranges(CommandRegistry& registry) {
  registry.bind("ZRANGE", zrange);
  registry.bind("ZREVRANGE", zrevrange);
  registry.bind("ZRANGEBYSCORE", zrangebyscore);
  registry.bind("ZREVRANGEBYSCORE", zrevrangebyscore);
  registry.bind("ZRANGEBYLEX", zrangebylex);
  registry.bind("ZREVRANGEBYLEX", zrevrangebylex);
  registry.bind("ZRANGESTORE", zrangestore);
  registry.bind("ZREMRANGEBYRANK", zremrangebyrank);
  registry.bind("ZREMRANGEBYSCORE", zremrangebyscore);
  registry.bind("ZREMRANGEBYLEX", zremrangebylex);
}

}  // namespace sf
