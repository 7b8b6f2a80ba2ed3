// BITFIELD and BITFIELD_RO: integers of 1 to 64 bits at any bit of a string.
#include <algorithm>
#include <optional>
#include <vector>

#include "common/base/strings.h"
#include "storage_node/command/string_edit.h"

namespace sf {

namespace {

__extension__ using Wide = __int128;  // sums of two 64-bit fields

enum class Overflow { kWrap, kSaturate, kFail };

struct FieldOp {
  enum class Kind { kGet, kSet, kIncrement } kind = Kind::kGet;
  bool is_signed = false;
  int bits = 0;
  int64_t offset = 0;  // in bits
  int64_t value = 0;
  Overflow overflow = Overflow::kWrap;
};

constexpr std::string_view kBadType =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 "
    "is.";
constexpr std::string_view kBadOffset = "ERR bit offset is not an integer or out of range";

void read_type(ArgReader& args, FieldOp* op) {
  const std::string_view text = args.next();
  const auto bits = text.empty() ? std::nullopt : parse_int64(text.substr(1));
  op->is_signed = !text.empty() && (text[0] == 'i' || text[0] == 'I');
  const bool known = op->is_signed || (!text.empty() && (text[0] == 'u' || text[0] == 'U'));
  if (!known || !bits || *bits < 1 || *bits > (op->is_signed ? 64 : 63)) return args.fail(kBadType);
  op->bits = static_cast<int>(*bits);
}

// "100" is a bit, "#3" the third field of this width.
void read_offset(ArgReader& args, FieldOp* op) {
  std::string_view text = args.next();
  const bool counted = !text.empty() && text[0] == '#';
  if (counted) text.remove_prefix(1);
  const auto at = parse_int64(text);
  const int64_t most = static_cast<int64_t>(kMaxStringBytes) * 8;
  if (!at || *at < 0 || *at >= most) return args.fail(kBadOffset);
  op->offset = counted ? *at * op->bits : *at;
  if (op->offset + op->bits > most) args.fail(kBadOffset);
}

void read_overflow(ArgReader& args, Overflow* overflow) {
  if (args.keyword("WRAP")) {
    *overflow = Overflow::kWrap;
  } else if (args.keyword("SAT")) {
    *overflow = Overflow::kSaturate;
  } else if (args.keyword("FAIL")) {
    *overflow = Overflow::kFail;
  } else {
    args.fail("ERR Invalid OVERFLOW type specified");
  }
}

std::vector<FieldOp> read_ops(ArgReader& args, bool read_only) {
  std::vector<FieldOp> ops;
  Overflow overflow = Overflow::kWrap;
  while (args.ok() && !args.done()) {
    FieldOp op;
    op.overflow = overflow;
    if (args.keyword("GET", 2)) {
      op.kind = FieldOp::Kind::kGet;
    } else if (args.keyword("SET", 3)) {
      op.kind = FieldOp::Kind::kSet;
    } else if (args.keyword("INCRBY", 3)) {
      op.kind = FieldOp::Kind::kIncrement;
    } else if (args.keyword("OVERFLOW", 1)) {
      read_overflow(args, &overflow);
      continue;
    } else {
      args.fail(kSyntaxError);
      break;
    }
    read_type(args, &op);
    if (args.ok()) read_offset(args, &op);
    if (args.ok() && op.kind != FieldOp::Kind::kGet) op.value = args.next_int();
    if (read_only && op.kind != FieldOp::Kind::kGet) {
      args.fail("ERR BITFIELD_RO only supports the GET subcommand");
    }
    ops.push_back(op);
  }
  return ops;
}

int64_t read_field(std::string_view bytes, const FieldOp& op) {
  uint64_t raw = 0;
  for (int i = 0; i < op.bits; ++i) {
    const int64_t bit = op.offset + i;
    const auto byte = static_cast<size_t>(bit >> 3);
    const unsigned char c = byte < bytes.size() ? static_cast<unsigned char>(bytes[byte]) : 0;
    raw = raw << 1 | ((c >> (7 - (bit & 7))) & 1U);
  }
  if (op.is_signed && op.bits < 64 && (raw >> (op.bits - 1)) != 0) raw |= ~uint64_t{0} << op.bits;
  return static_cast<int64_t>(raw);
}

void write_field(std::string& bytes, const FieldOp& op, int64_t value) {
  const auto end = static_cast<size_t>((op.offset + op.bits + 7) >> 3);
  if (bytes.size() < end) bytes.resize(end, '\0');
  for (int i = 0; i < op.bits; ++i) {
    const int64_t bit = op.offset + i;
    char& c = bytes[static_cast<size_t>(bit >> 3)];
    const int mask = 1 << (7 - (bit & 7));
    const bool on = (static_cast<uint64_t>(value) >> (op.bits - 1 - i) & 1U) != 0;
    c = static_cast<char>(on ? c | mask : c & ~mask);
  }
}

// `wide` brought into the field by its overflow rule; nullopt: FAIL.
std::optional<int64_t> fit(const FieldOp& op, Wide wide) {
  const Wide one = 1;
  const Wide most = (one << (op.is_signed ? op.bits - 1 : op.bits)) - 1;
  const Wide least = op.is_signed ? -(one << (op.bits - 1)) : 0;
  if (wide >= least && wide <= most) return static_cast<int64_t>(wide);
  if (op.overflow == Overflow::kFail) return std::nullopt;
  if (op.overflow == Overflow::kSaturate) return static_cast<int64_t>(wide > most ? most : least);
  uint64_t raw = static_cast<uint64_t>(wide);
  if (op.bits < 64) raw &= (uint64_t{1} << op.bits) - 1;
  if (op.is_signed && op.bits < 64 && (raw >> (op.bits - 1)) != 0) raw |= ~uint64_t{0} << op.bits;
  return static_cast<int64_t>(raw);
}

void bitfield(CommandContext& ctx, bool read_only) {
  ArgReader args(ctx.argv);
  const std::string_view name = args.next();
  const std::vector<FieldOp> ops = read_ops(args, read_only);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  StringEdit key(ctx, name);
  if (!key.ok()) return;
  std::string bytes(key.value());
  bool changed = false;
  std::string reply;
  resp::array(reply, ops.size());
  for (const FieldOp& op : ops) {
    const int64_t before = read_field(bytes, op);
    if (op.kind == FieldOp::Kind::kGet) {
      resp::integer(reply, before);
      continue;
    }
    const bool set = op.kind == FieldOp::Kind::kSet;
    const auto after =
        fit(op, set ? static_cast<Wide>(op.value) : static_cast<Wide>(before) + op.value);
    if (!after) {
      resp::nil(reply);
      continue;
    }
    write_field(bytes, op, *after);
    changed = true;
    resp::integer(reply, set ? before : *after);
  }
  if (changed && !key.store(bytes)) return;
  ctx.out += reply;
}

void cmd_bitfield(CommandContext& ctx) {
  bitfield(ctx, false);
}

void cmd_bitfield_ro(CommandContext& ctx) {
  bitfield(ctx, true);
}

}  // namespace

void register_bitfield(CommandRegistry& registry) {
  registry.bind("BITFIELD", cmd_bitfield);
  registry.bind("BITFIELD_RO", cmd_bitfield_ro);
}

}  // namespace sf
