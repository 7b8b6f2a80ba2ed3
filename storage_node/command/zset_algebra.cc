// ZUNION, ZINTER, ZDIFF, their STORE forms, and ZINTERCARD.
#include "storage_node/types/zset_algebra.h"

#include <cmath>

#include "common/base/strings.h"
#include "storage_node/command/zset_families.h"

namespace sf {

namespace {

enum class Operation { kUnion, kIntersection, kDifference };

struct AlgebraQuery {
  std::span<const std::string_view> names;
  std::vector<double> weights;  // empty: all 1
  Aggregate aggregate = Aggregate::kSum;
  bool with_scores = false;
};

std::span<const std::string_view> read_names(ArgReader& args, const CommandSpec& spec) {
  int64_t count = args.next_int();
  if (args.ok() && count < 1) {
    args.fail(cat("ERR at least 1 input key is needed for '", to_lower(spec.name), "' command"));
  }
  return args.take(static_cast<size_t>(count));
}

Aggregate read_aggregate(ArgReader& args) {
  if (args.keyword("MIN")) return Aggregate::kMin;
  if (args.keyword("MAX")) return Aggregate::kMax;
  if (!args.keyword("SUM")) args.fail(kSyntaxError);
  return Aggregate::kSum;
}

// The names are opened before the options are looked at: WRONGTYPE comes before a syntax error.
void read_options(KeyTxn& keys, std::span<const std::string_view> options, Operation operation,
                  bool may_have_scores, AlgebraQuery* out) {
  AlgebraQuery& query = *out;
  ArgReader args(options, 0);
  bool combines = operation != Operation::kDifference;
  while (args.ok() && !args.done()) {
    if (combines && args.keyword("WEIGHTS", query.names.size())) {
      query.weights.clear();
      for (size_t i = 0; i < query.names.size(); ++i) {
        query.weights.push_back(args.next_double("ERR weight value is not a float"));
      }
    } else if (combines && args.keyword("AGGREGATE", 1)) {
      query.aggregate = read_aggregate(args);
    } else if (may_have_scores && args.keyword("WITHSCORES")) {
      query.with_scores = true;
    } else {
      args.fail(kSyntaxError);
    }
  }
  if (!args.ok()) keys.fail(args.error());
}

std::vector<ZsetSource> open_sources(KeyTxn& keys, std::span<const std::string_view> names) {
  std::vector<ZsetSource> sources;
  for (auto name : names) sources.push_back({&keys.open_set_or_zset(name), 1});
  return sources;
}

ScoredMembers compute(KeyTxn& keys, std::span<const std::string_view> options, Operation operation,
                      bool may_have_scores, AlgebraQuery* query) {
  auto sources = open_sources(keys, query->names);
  read_options(keys, options, operation, may_have_scores, query);
  if (!keys.ok()) return {};
  for (size_t i = 0; i < query->weights.size(); ++i) sources[i].weight = query->weights[i];
  if (operation == Operation::kUnion) return zset_union(sources, query->aggregate);
  if (operation == Operation::kIntersection) return zset_intersection(sources, query->aggregate);
  return zset_difference(sources);
}

void reply_algebra(CommandContext& ctx, Operation operation) {
  ArgReader args(ctx.argv);
  AlgebraQuery query;
  query.names = read_names(args, ctx.spec);
  auto options = args.rest();
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    auto members = compute(keys, options, operation, true, &query);
    reply_scored(ctx.out, members, query.with_scores);
  });
}

void store_algebra(CommandContext& ctx, Operation operation) {
  ArgReader args(ctx.argv);
  auto to = args.next();
  AlgebraQuery query;
  query.names = read_names(args, ctx.spec);
  auto options = args.rest();
  run(ctx, args, Reads::kOne, [&](KeyTxn& keys) {
    auto members = compute(keys, options, operation, false, &query);
    zset_store(keys.replace(to, KeyType::kZset), members);
    resp::integer(ctx.out, static_cast<int64_t>(members.size()));
  });
}

void zunion(CommandContext& ctx) {
  reply_algebra(ctx, Operation::kUnion);
}
void zinter(CommandContext& ctx) {
  reply_algebra(ctx, Operation::kIntersection);
}
void zdiff(CommandContext& ctx) {
  reply_algebra(ctx, Operation::kDifference);
}
void zunionstore(CommandContext& ctx) {
  store_algebra(ctx, Operation::kUnion);
}
void zinterstore(CommandContext& ctx) {
  store_algebra(ctx, Operation::kIntersection);
}
void zdiffstore(CommandContext& ctx) {
  store_algebra(ctx, Operation::kDifference);
}

void zintercard(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  auto names = read_names(args, ctx.spec);
  ArgReader options(args.rest(), 0);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    auto sources = open_sources(keys, names);
    int64_t limit = 0;
    while (options.keyword("LIMIT", 1)) limit = options.next_count("ERR LIMIT can't be negative");
    if (!options.finish()) keys.fail(options.error());
    uint64_t count = keys.ok() ? zset_intersection_size(sources, static_cast<uint64_t>(limit)) : 0;
    resp::integer(ctx.out, static_cast<int64_t>(count));
  });
}

}  // namespace

void register_zset_algebra(CommandRegistry& registry) {
  registry.bind("ZUNION", zunion);
  registry.bind("ZINTER", zinter);
  registry.bind("ZDIFF", zdiff);
  registry.bind("ZUNIONSTORE", zunionstore);
  registry.bind("ZINTERSTORE", zinterstore);
  registry.bind("ZDIFFSTORE", zdiffstore);
  registry.bind("ZINTERCARD", zintercard);
}

}  // namespace sf
