// The frame of every handler that works on keys: check the arguments, do the work on a KeyTxn while
// writing the reply, commit; if anything failed, the reply becomes that error and nothing was
// changed.
#pragma once

#include <string>
#include <string_view>

#include "common/resp/encoder.h"
#include "storage_node/command/arg_reader.h"
#include "storage_node/command/command.h"
#include "storage_node/command/reply.h"
#include "storage_node/types/key_txn.h"

namespace sf {

enum class Reads {
  kOne,   // a single point read after the meta, or under the key locks of a write
  kMany,  // several reads that must show one moment
};

// `body(keys)` appends one reply to ctx.out.
template <class Body>
void run(CommandContext& ctx, ArgReader& args, Reads reads, Body body) {
  if (!args.finish()) return reply_error(ctx.out, args.error());
  KeyTxn keys(ctx.engine, ctx.db);
  if (reads == Reads::kMany) keys.pin();
  size_t mark = ctx.out.size();
  body(keys);
  Status status = keys.commit();
  if (status) return;
  ctx.out.resize(mark);
  reply_error(ctx.out, status);
}

// One reply is never larger. Redis would go on until the client's output limit cuts the connection;
// here the client is told.
inline constexpr size_t kMaxReplyBytes = 512UL << 20;
inline constexpr std::string_view kReplyTooLarge =
    "ERR the reply would be larger than 512 MB: ask for less at a time";

// An array whose length is known when its elements have been written. Fails the command, and with
// it the walk that feeds it, when it grows too large.
class ArrayReply {
 public:
  ArrayReply(KeyTxn& keys, std::string& out) : keys_(&keys), out_(out), mark_(out.size()) {}
  // For walks that are no KeyTxn's: they look at full().
  explicit ArrayReply(std::string& out) : keys_(nullptr), out_(out), mark_(out.size()) {}
  ~ArrayReply() {
    std::string header;
    resp::array(header, elements_);
    out_.insert(mark_, header);
  }
  ArrayReply(const ArrayReply&) = delete;
  ArrayReply& operator=(const ArrayReply&) = delete;

  void bulk(std::string_view bytes) {
    if (!admit(bytes.size())) return;
    resp::bulk(out_, bytes);
    ++elements_;
  }
  void score(double value) {
    if (!admit(0)) return;
    resp::bulk_double(out_, value);
    ++elements_;
  }
  bool full() const { return full_; }

 private:
  bool admit(size_t bytes) {
    full_ = full_ || out_.size() - mark_ + bytes > kMaxReplyBytes;
    if (full_ && keys_ != nullptr) keys_->fail(kReplyTooLarge);
    return !full_;
  }

  KeyTxn* keys_;
  std::string& out_;
  size_t mark_;
  size_t elements_ = 0;
  bool full_ = false;
};

}  // namespace sf
