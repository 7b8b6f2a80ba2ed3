// Strings as bit arrays: SETBIT, GETBIT, BITCOUNT, BITPOS.
#include <algorithm>
#include <bit>

#include "common/base/strings.h"
#include "storage_node/command/string_edit.h"

namespace sf {

namespace {

constexpr int64_t kMaxBit = (int64_t{1} << 32) - 1;

std::optional<int64_t> bit_offset(CommandContext& ctx) {
  const auto offset = parse_int64(ctx.argv[2]);
  if (offset && *offset >= 0 && *offset <= kMaxBit) return offset;
  reply_error(ctx.out, "ERR bit offset is not an integer or out of range");
  return std::nullopt;
}

bool bit_at(std::string_view value, int64_t bit) {
  const auto byte = static_cast<size_t>(bit >> 3);
  if (byte >= value.size()) return false;
  return ((static_cast<unsigned char>(value[byte]) >> (7 - (bit & 7))) & 1) != 0;
}

void cmd_getbit(CommandContext& ctx) {
  const auto offset = bit_offset(ctx);
  if (!offset) return;
  const StringEdit key(ctx, ctx.argv[1]);
  if (key.ok()) resp::integer(ctx.out, bit_at(key.value(), *offset) ? 1 : 0);
}

void cmd_setbit(CommandContext& ctx) {
  const auto offset = bit_offset(ctx);
  if (!offset) return;
  if (ctx.argv[3] != "0" && ctx.argv[3] != "1") {
    return reply_error(ctx.out, "ERR bit is not an integer or out of range");
  }
  StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  const bool before = bit_at(key.value(), *offset);
  std::string value(key.value());
  const auto byte = static_cast<size_t>(*offset >> 3);
  if (value.size() <= byte) value.resize(byte + 1, '\0');
  const int mask = 1 << (7 - (*offset & 7));
  const int old_byte = static_cast<unsigned char>(value[byte]);
  value[byte] = static_cast<char>(ctx.argv[3] == "1" ? old_byte | mask : old_byte & ~mask);
  if (key.store(value)) resp::integer(ctx.out, before ? 1 : 0);
}

// A [start end [BYTE|BIT]] range over a value, as bits; last < first: empty.
struct BitRange {
  int64_t first = 0;
  int64_t last = -1;
};

struct RangeArgs {
  bool start_given = false;
  bool end_given = false;
  bool bits = false;
  int64_t start = 0;
  int64_t end = -1;
};

void read_range(ArgReader& args, bool end_optional, RangeArgs* range) {
  if (args.done()) return;
  range->start_given = true;
  range->start = args.next_int();
  if (args.done()) {
    if (!end_optional) args.fail(kSyntaxError);
    return;
  }
  range->end_given = true;
  const std::string_view end_text = args.next();
  if (args.keyword("BIT")) {
    range->bits = true;
  } else if (!args.keyword("BYTE") && !args.done()) {
    args.fail(kSyntaxError);
  }
  const auto end = parse_int64(end_text);
  if (!end) args.fail(kNotInteger);
  range->end = end.value_or(0);
}

BitRange resolve(const RangeArgs& range, size_t bytes) {
  const int64_t size = static_cast<int64_t>(bytes) * (range.bits ? 8 : 1);
  const auto place = [size](int64_t at) {
    return at < 0 ? std::max<int64_t>(0, size + std::max(at, -size)) : at;
  };
  if (size == 0) return {};
  const int64_t first = place(range.start);
  const int64_t last = std::min(place(range.end), size - 1);
  if (first > last) return {};
  return range.bits ? BitRange{first, last} : BitRange{first * 8, last * 8 + 7};
}

int64_t count_bits(std::string_view value, BitRange range) {
  int64_t count = 0;
  int64_t bit = range.first;
  for (; bit <= range.last && (bit & 7) != 0; ++bit) count += bit_at(value, bit) ? 1 : 0;
  for (; bit + 7 <= range.last; bit += 8) {
    count += std::popcount(static_cast<unsigned char>(value[static_cast<size_t>(bit >> 3)]));
  }
  for (; bit <= range.last; ++bit) count += bit_at(value, bit) ? 1 : 0;
  return count;
}

void cmd_bitcount(CommandContext& ctx) {
  // Redis looks at the range only if the key is there.
  const StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  if (!key.exists()) return resp::integer(ctx.out, 0);
  ArgReader args(ctx.argv, 2);
  RangeArgs range;
  read_range(args, false, &range);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  // Two negative ends the wrong way round are nothing here, but not to BITPOS, which cuts them
  // first.
  if (range.start < 0 && range.end < 0 && range.start > range.end) return resp::integer(ctx.out, 0);
  resp::integer(ctx.out, count_bits(key.value(), resolve(range, key.value().size())));
}

int64_t find_bit(std::string_view value, BitRange range, bool wanted) {
  const unsigned char skip = wanted ? 0x00 : 0xff;
  for (int64_t bit = range.first; bit <= range.last;) {
    const auto byte = static_cast<unsigned char>(value[static_cast<size_t>(bit >> 3)]);
    if ((bit & 7) == 0 && byte == skip) {
      bit += 8;
    } else if (bit_at(value, bit) == wanted) {
      return bit;
    } else {
      ++bit;
    }
  }
  return -1;
}

void cmd_bitpos(CommandContext& ctx) {
  ArgReader args(ctx.argv, 2);
  const int64_t bit = args.next_int();
  if (bit != 0 && bit != 1) args.fail("ERR The bit argument must be 1 or 0.");
  if (!args.ok()) return reply_error(ctx.out, args.error());
  const StringEdit key(ctx, ctx.argv[1]);
  if (!key.ok()) return;
  const bool wanted = bit == 1;
  if (!key.exists()) return resp::integer(ctx.out, wanted ? -1 : 0);
  RangeArgs range;
  read_range(args, true, &range);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const BitRange bits = resolve(range, key.value().size());
  if (bits.last < bits.first) return resp::integer(ctx.out, -1);
  int64_t found = find_bit(key.value(), bits, wanted);
  // Without an end, the string is thought to go on with zeros.
  if (found < 0 && !wanted && !range.end_given) found = bits.last + 1;
  resp::integer(ctx.out, found);
}

}  // namespace

void register_bits(CommandRegistry& registry) {
  registry.bind("SETBIT", cmd_setbit);
  registry.bind("GETBIT", cmd_getbit);
  registry.bind("BITCOUNT", cmd_bitcount);
  registry.bind("BITPOS", cmd_bitpos);
}

}  // namespace sf
