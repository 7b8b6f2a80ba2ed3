// The frame of the string commands: load one key as a string, change it, commit, answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/resp/encoder.h"
#include "storage_node/command/arg_reader.h"
#include "storage_node/command/command.h"
#include "storage_node/command/reply.h"
#include "storage_node/types/meta.h"

namespace sf {

inline constexpr size_t kMaxStringBytes = 512UL << 20;
inline constexpr std::string_view kStringTooLong =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

// One string key during one command.
class StringEdit {
 public:
  // Answers WRONGTYPE or the I/O error itself: then ok() is false and nothing else is to be said.
  StringEdit(CommandContext& ctx, std::string_view key) : ctx_(ctx), key_(key) {
    Result<Loaded> loaded = load_typed(ctx.engine, ctx.db, key, KeyType::kString);
    ok_ = loaded.is_ok();
    if (ok_) {
      loaded_ = std::move(*loaded);
    } else {
      reply_error(ctx.out, loaded.status());
    }
  }

  bool ok() const { return ok_; }
  bool exists() const { return static_cast<bool>(loaded_); }
  std::string_view value() const { return exists() ? loaded_->value() : std::string_view(); }
  int64_t expire_ms() const { return exists() ? loaded_->expire_ms : 0; }
  const Loaded& loaded() const { return loaded_; }

  // Stores the value, with the expiry the key has. False: the error has been answered.
  bool store(std::string_view value) { return store(value, expire_ms()); }
  bool store(std::string_view value, int64_t expire_ms);
  bool erase();

 private:
  bool commit(WriteTxn txn);

  CommandContext& ctx_;
  std::string_view key_;
  Loaded loaded_;
  bool ok_ = false;
};

// Commits and, if that fails, answers the error.
bool commit_or_reply(CommandContext& ctx, WriteTxn txn);

// EX, PX (relative) or EXAT, PXAT (absolute) with its value, to milliseconds since 1970. nullopt:
// out of range ("invalid expire time").
enum class ExpireUnit { kSeconds, kMilliseconds };
std::optional<int64_t> absolute_expiry(int64_t value, ExpireUnit unit, bool relative,
                                       int64_t now_ms);

}  // namespace sf
