#include "storage_node/command/collection_scan.h"

#include "common/base/coding.h"
#include "common/base/strings.h"
#include "storage_node/types/collection.h"

namespace sf {

namespace {

constexpr int64_t kDefaultCount = 10;
constexpr int64_t kMaxCount = 100'000;  // bounds one reply's work; the client just comes again

struct ScanQuery {
  std::string_view key;
  uint64_t cursor = 0;
  std::string_view pattern = "*";
  int64_t count = kDefaultCount;
};

bool read_query(ArgReader& args, ScanQuery* query) {
  query->key = args.next();
  auto cursor = parse_uint64(args.next());
  if (!cursor) args.fail("ERR invalid cursor");
  query->cursor = cursor.value_or(0);
  while (args.ok() && !args.done()) {
    if (args.keyword("COUNT", 1)) {
      query->count = args.next_int();
      if (query->count < 1) args.fail(kSyntaxError);
    } else if (args.keyword("MATCH", 1)) {
      query->pattern = args.next();
    } else {
      args.fail(kSyntaxError);
    }
  }
  query->count = std::min(query->count, kMaxCount);
  return args.ok();
}

std::string scope_of(int db, const Collection& collection) {
  return data_prefix(db, collection.key(), collection.version());
}

}  // namespace

void scan_collection(
    CommandContext& ctx, KeyType type,
    const std::function<void(ArrayReply&, std::string_view, std::string_view)>& append) {
  ArgReader args(ctx.argv);
  ScanQuery query;
  read_query(args, &query);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& collection = keys.open(query.key, type);
    ScanCursors& cursors = ctx.engine.scan_cursors();
    std::string scope = scope_of(ctx.db, collection);
    std::string from;
    if (query.cursor != 0) from = cursors.find(scope, query.cursor).value_or("");
    uint64_t next = 0;
    std::string entries;
    {
      ArrayReply reply(entries);
      int64_t seen = 0;
      for (Cursor at = collection.scan(Cf::kData, from); at.valid(); at.next()) {
        if (seen++ == query.count) {
          next = cursors.save(std::move(scope), std::string(at.suffix()));
          break;
        }
        if (query.pattern == "*" || glob_match(query.pattern, at.suffix())) {
          append(reply, at.suffix(), at.value());
        }
      }
    }
    resp::array(ctx.out, 2);
    resp::bulk(ctx.out, std::to_string(next));
    ctx.out.append(entries);
  });
}

}  // namespace sf
