#include "storage_node/command/random_reply.h"

#include <limits>
#include <optional>

namespace sf {

namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct RandomQuery {
  std::string_view key;
  std::optional<int64_t> count;
  bool with_value = false;
};

RandomQuery read_query(ArgReader& args, std::string_view value_word) {
  RandomQuery query;
  query.key = args.next();
  if (args.done()) return query;
  query.count = args.next_int_in(-kMax, kMax,
                                 "ERR value is out of range, value must between "
                                 "-9223372036854775807 and 9223372036854775807");
  if (args.ok() && !args.done()) {
    query.with_value = !value_word.empty() && args.left() == 1 && args.keyword(value_word);
    if (!query.with_value) args.fail(kSyntaxError);
    if (*query.count < -(kMax / 2) || *query.count > kMax / 2) {
      args.fail("ERR value is out of range");
    }
  }
  return query;
}

}  // namespace

void reply_random(CommandContext& ctx, KeyType type, std::string_view value_word,
                  const std::function<void(ArrayReply&, const Entry&, bool with_value)>& append) {
  ArgReader args(ctx.argv);
  RandomQuery query = read_query(args, value_word);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& collection = keys.open(query.key, type);
    Random random(Random::system_seed());
    if (!query.count) {
      auto drawn = sample_distinct(collection, 1, random);
      return drawn.empty() ? resp::nil(ctx.out) : resp::bulk(ctx.out, drawn[0].field);
    }
    ArrayReply reply(keys, ctx.out);
    if (*query.count >= 0) {
      auto drawn = sample_distinct(collection, static_cast<uint64_t>(*query.count), random);
      for (const Entry& entry : drawn) append(reply, entry, query.with_value);
    } else {
      sample_repeated(collection, static_cast<uint64_t>(-*query.count), random,
                      [&](const Entry& entry) { append(reply, entry, query.with_value); });
    }
  });
}

}  // namespace sf
