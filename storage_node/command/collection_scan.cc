#include "storage_node/command/collection_scan.h"

#include "common/base/coding.h"
#include "common/base/strings.h"
#include "storage_node/types/collection.h"

namespace sf {

namespace {

constexpr int64_t kDefaultCount = 10;
constexpr int64_t kMaxCount = 100'000;  // bounds one reply's work; the client just comes again

struct ScanOptions {
  std::string_view pattern = "*";
  int64_t count = kDefaultCount;
};

ScanOptions read_options(ArgReader& args) {
  ScanOptions options;
  while (args.ok() && !args.done()) {
    if (args.keyword("COUNT", 1)) {
      options.count = args.next_int();
      if (options.count < 1) args.fail(kSyntaxError);
    } else if (args.keyword("MATCH", 1)) {
      options.pattern = args.next();
    } else {
      args.fail(kSyntaxError);
    }
  }
  options.count = std::min(options.count, kMaxCount);
  return options;
}

std::string scope_of(int db, const Collection& collection) {
  return data_prefix(db, collection.key(), collection.version());
}

}  // namespace

void scan_collection(
    CommandContext& ctx, KeyType type,
    const std::function<void(ArrayReply&, std::string_view, std::string_view)>& append) {
  ArgReader args(ctx.argv);
  auto key = args.next();
  auto cursor = parse_uint64(args.next());
  if (!cursor) args.fail("ERR invalid cursor");
  ArgReader option_args(args.rest(), 0);
  run(ctx, args, Reads::kMany, [&](KeyTxn& keys) {
    Collection& collection = keys.open(key, type);
    // Redis looks at the options only if the key is there.
    ScanOptions options;
    if (collection.exists()) options = read_options(option_args);
    if (!option_args.ok()) return keys.fail(option_args.error());
    ScanCursors& cursors = ctx.engine.scan_cursors();
    std::string scope = scope_of(ctx.db, collection);
    std::string from;
    if (*cursor != 0) from = cursors.find(scope, *cursor).value_or("");
    uint64_t next = 0;
    std::string entries;
    {
      ArrayReply reply(keys, entries);
      int64_t seen = 0;
      for (Cursor at = collection.scan(Cf::kData, from); at.valid(); at.next()) {
        if (seen++ == options.count) {
          next = cursors.save(std::move(scope), std::string(at.suffix()));
          break;
        }
        if (options.pattern == "*" || glob_match(options.pattern, at.suffix())) {
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
