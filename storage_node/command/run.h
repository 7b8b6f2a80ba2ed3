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

// An array whose length is known when its elements have been written.
class ArrayReply {
 public:
  explicit ArrayReply(std::string& out) : out_(out), mark_(out.size()) {}
  ~ArrayReply() {
    std::string header;
    resp::array(header, elements_);
    out_.insert(mark_, header);
  }
  ArrayReply(const ArrayReply&) = delete;
  ArrayReply& operator=(const ArrayReply&) = delete;

  void bulk(std::string_view bytes) {
    resp::bulk(out_, bytes);
    ++elements_;
  }
  void score(double value) {
    resp::bulk_double(out_, value);
    ++elements_;
  }

 private:
  std::string& out_;
  size_t mark_;
  size_t elements_ = 0;
};

}  // namespace sf
