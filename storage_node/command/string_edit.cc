#include "storage_node/command/string_edit.h"

namespace sf {

bool commit_or_reply(CommandContext& ctx, WriteTxn txn) {
  const Result<uint64_t> done = ctx.engine.commit(std::move(txn));
  if (done) return true;
  reply_error(ctx.out, done.status());
  return false;
}

bool StringEdit::store(std::string_view value, int64_t expire_ms) {
  WriteTxn txn;
  put_string(txn, ctx_.db, key_, loaded_, value, expire_ms);
  return commit_or_reply(ctx_, std::move(txn));
}

bool StringEdit::erase() {
  WriteTxn txn;
  erase_key(txn, ctx_.db, key_);
  return commit_or_reply(ctx_, std::move(txn));
}

std::optional<int64_t> absolute_expiry(int64_t value, ExpireUnit unit, bool relative,
                                       int64_t now_ms) {
  if (unit == ExpireUnit::kSeconds) {
    if (value > INT64_MAX / 1000 || value < INT64_MIN / 1000) return std::nullopt;
    value *= 1000;
  }
  if (!relative) return value;
  if (value > 0 && now_ms > INT64_MAX - value) return std::nullopt;
  return now_ms + value;
}

}  // namespace sf
