#include "storage_node/command/key_scan.h"

#include "common/base/strings.h"
#include "storage_node/command/run.h"
#include "storage_node/server/client_session.h"

namespace sf {

namespace {
constexpr int64_t kMaxCount = 100'000;  // bounds one reply's work; the client just comes again
}  // namespace

Result<std::string> walk_keys(
    CommandContext& ctx, std::string_view begin, std::string_view end, int64_t budget,
    const std::function<bool(std::string_view user_key, const MetaFields& meta)>& visit) {
  KeyTxn keys(ctx.engine, ctx.db);
  const bool sees_all = ctx.session != nullptr && ctx.session->verify_reads();
  std::string stopped;
  {
    Cursor at = keys.scan(Cf::kMeta, begin, end, 0, KeyTxn::From::kFirst);
    for (; at.valid(); at.next()) {
      int db = 0;
      int slot = 0;
      std::string_view user_key;
      if (budget-- == 0) {
        stopped = at.suffix();
        break;
      }
      MetaFields meta;
      if (!parse_meta_key(at.suffix(), &db, &slot, &user_key)) continue;
      if (!decode_meta(at.value(), &meta)) continue;
      if (meta.expired_at(ctx.engine.expiry_now_ms(slot))) continue;
      if (!sees_all && (ctx.engine.slot_flags(slot) & kSlotReadsRefused) != 0) continue;
      if (!visit(user_key, meta)) {
        stopped = at.suffix();
        break;
      }
    }
  }
  const Status status = keys.commit();
  if (!status) return status;
  return stopped;
}

void read_scan_options(ArgReader& args, bool with_type, ScanOptions* options) {
  while (args.ok() && !args.done()) {
    if (args.keyword("MATCH", 1)) {
      options->pattern = args.next();
    } else if (args.keyword("COUNT", 1)) {
      options->count = args.next_int();
      if (options->count < 1) args.fail(kSyntaxError);
    } else if (with_type && args.keyword("TYPE", 1)) {
      options->type = to_lower(args.next());
    } else {
      args.fail(kSyntaxError);
    }
  }
  options->count = std::min(options->count, kMaxCount);
}

void reply_scan(CommandContext& ctx, std::string scope, std::string_view begin,
                std::string_view end, uint64_t cursor, const ScanOptions& options) {
  std::string from(begin);
  if (cursor != 0) from = ctx.engine.scan_cursors().find(scope, cursor).value_or(from);
  std::string found;
  Result<std::string> next = std::string();
  {
    ArrayReply reply(found);
    next =
        walk_keys(ctx, from, end, options.count, [&](std::string_view key, const MetaFields& meta) {
          if (options.type && *options.type != type_name(meta.type)) return true;
          if (options.pattern == "*" || glob_match(options.pattern, key)) {
            reply.bulk(key);
          }
          return true;
        });
  }
  if (!next) return reply_error(ctx.out, next.status());
  const uint64_t place =
      next->empty() ? 0 : ctx.engine.scan_cursors().save(std::move(scope), std::move(*next));
  resp::array(ctx.out, 2);
  resp::bulk(ctx.out, std::to_string(place));
  ctx.out.append(found);
}

}  // namespace sf
