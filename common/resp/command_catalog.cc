#include "common/resp/command_catalog.h"

#include <array>
#include <bit>
#include <cstring>

#include "common/base/strings.h"
#include "common/resp/command_row.h"
#include "common/resp/command_table_geo_streams.h"
#include "common/resp/command_table_hashes.h"
#include "common/resp/command_table_keys.h"
#include "common/resp/command_table_lists.h"
#include "common/resp/command_table_pika.h"
#include "common/resp/command_table_server.h"
#include "common/resp/command_table_sets.h"
#include "common/resp/command_table_slots.h"
#include "common/resp/command_table_strings.h"
#include "common/resp/command_table_zsets.h"

namespace sf {
namespace {

using catalog::CommandRow;
using catalog::KeyRule;
using Argv = std::span<const std::string_view>;

constexpr size_t kCommands =
    std::size(catalog::kStringsCommands) + std::size(catalog::kHashesCommands) +
    std::size(catalog::kListsCommands) + std::size(catalog::kSetsCommands) +
    std::size(catalog::kZsetsCommands) + std::size(catalog::kGeoStreamsCommands) +
    std::size(catalog::kKeysCommands) + std::size(catalog::kServerCommands) +
    std::size(catalog::kPikaCommands) + std::size(catalog::kSlotsCommands);

constexpr size_t kNameMax = 32;
constexpr uint64_t kFold = 0xdfdfdfdfdfdfdfdfULL;  // clears the bit that tells a letter's case

// N bytes as a number, as a little-endian load gives it.
template <size_t N>
constexpr uint64_t word_at(const char* p) {
  uint64_t word = 0;
  if (std::is_constant_evaluated()) {
    for (size_t i = 0; i < N; ++i) {
      word |= static_cast<uint64_t>(static_cast<unsigned char>(p[i])) << (8 * i);
    }
  } else {
    std::memcpy(&word, p, N);
  }
  return word;
}
static_assert(std::endian::native == std::endian::little);

// From the first and the last bytes and the length; the few names alike in all of these share a
// chain.
constexpr size_t hash_name(std::string_view name) {
  const char* const p = name.data();
  const size_t size = name.size();
  uint64_t first = 0;
  uint64_t last = 0;
  if (size >= 8) {
    first = word_at<8>(p);
    last = word_at<8>(p + size - 8);
  } else if (size >= 4) {
    first = word_at<4>(p);
    last = word_at<4>(p + size - 4);
  } else {
    first = word_at<1>(p) | word_at<1>(p + size / 2) << 8;
    last = word_at<1>(p + size - 1);
  }
  uint64_t hash = (first & kFold) * 0x9e3779b97f4a7c15ULL;
  hash ^= hash >> 29;
  hash = (hash + (last & kFold) + size) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<size_t>(hash >> 48);
}

struct Table {
  std::array<CommandSpec, kCommands> specs{};
  std::array<KeyRule, kCommands> rules{};
  static constexpr size_t kBuckets = 4096;
  static constexpr uint16_t kNone = 0xffff;
  std::array<uint16_t, kBuckets> buckets{};
  size_t used = 0;

  template <size_t N>
  constexpr void add(const CommandRow (&rows)[N]) {
    for (const CommandRow& row : rows) {
      specs[used] = row.spec;
      specs[used].index = static_cast<uint16_t>(used);
      rules[used] = row.rule;
      size_t at = hash_name(row.spec.name) % kBuckets;
      while (buckets[at] != kNone) at = (at + 1) % kBuckets;
      buckets[at] = static_cast<uint16_t>(used++);
    }
  }

  constexpr Table() {
    buckets.fill(kNone);
    add(catalog::kStringsCommands);
    add(catalog::kHashesCommands);
    add(catalog::kListsCommands);
    add(catalog::kSetsCommands);
    add(catalog::kZsetsCommands);
    add(catalog::kGeoStreamsCommands);
    add(catalog::kKeysCommands);
    add(catalog::kServerCommands);
    add(catalog::kPikaCommands);
    add(catalog::kSlotsCommands);
  }
};

constexpr Table kTable;
static_assert(kTable.used == kCommands);

bool same_name(std::string_view upper, std::string_view given) {
  for (size_t i = 0; i < upper.size(); ++i) {
    const char c = given[i];
    const char folded = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    if (folded != upper[i]) return false;
  }
  return true;
}

void add_range(size_t from, size_t count, std::vector<int>* positions) {
  for (size_t i = 0; i < count; ++i) positions->push_back(static_cast<int>(from + i));
}

bool fixed_keys(const CommandSpec& spec, Argv argv, std::vector<int>* positions) {
  if (spec.first_key == 0) return true;
  const int argc = static_cast<int>(argv.size());
  const int last = spec.last_key < 0 ? argc + spec.last_key : spec.last_key;
  if (spec.first_key >= argc || last >= argc) return false;
  for (int i = spec.first_key; i <= last; i += spec.key_step) positions->push_back(i);
  return true;
}

// numkeys at `at`. The count is checked against the arguments before anything is made of it (C42).
bool counted_keys(Argv argv, size_t at, bool zero_allowed, std::vector<int>* positions) {
  if (at >= argv.size()) return false;
  const auto count = parse_int64(argv[at]);
  if (!count || *count < (zero_allowed ? 0 : 1)) return false;
  if (static_cast<uint64_t>(*count) > argv.size() - at - 1) return false;
  add_range(at + 1, static_cast<size_t>(*count), positions);
  return true;
}

bool stream_keys(Argv argv, std::vector<int>* positions) {
  for (size_t i = 1; i < argv.size(); ++i) {
    if (equals_ignore_case(argv[i], "COUNT") || equals_ignore_case(argv[i], "BLOCK")) {
      ++i;
    } else if (equals_ignore_case(argv[i], "GROUP")) {
      i += 2;
    } else if (equals_ignore_case(argv[i], "STREAMS")) {
      const size_t rest = argv.size() - i - 1;
      if (rest == 0 || rest % 2 != 0) return false;
      add_range(i + 1, rest / 2, positions);
      return true;
    } else if (!equals_ignore_case(argv[i], "NOACK")) {
      return false;
    }
  }
  return false;
}

bool sort_keys(Argv argv, std::vector<int>* positions) {
  if (argv.size() < 2) return false;
  positions->push_back(1);
  for (size_t i = 2; i < argv.size(); ++i) {
    if (equals_ignore_case(argv[i], "LIMIT")) {
      i += 2;
    } else if (equals_ignore_case(argv[i], "GET") || equals_ignore_case(argv[i], "BY")) {
      ++i;
    } else if (equals_ignore_case(argv[i], "STORE") && ++i < argv.size()) {
      positions->push_back(static_cast<int>(i));
    }
  }
  return true;
}

bool geo_keys(Argv argv, size_t from, std::vector<int>* positions) {
  if (argv.size() < from) return false;
  positions->push_back(1);
  for (size_t i = from; i < argv.size(); ++i) {
    if (equals_ignore_case(argv[i], "COUNT")) {
      ++i;
    } else if ((equals_ignore_case(argv[i], "STORE") || equals_ignore_case(argv[i], "STOREDIST")) &&
               ++i < argv.size()) {
      positions->push_back(static_cast<int>(i));
    }
  }
  return true;
}

bool migrate_keys(Argv argv, std::vector<int>* positions) {
  if (argv.size() < 6) return false;
  if (!argv[3].empty()) {
    positions->push_back(3);
    return true;
  }
  for (size_t i = 6; i < argv.size(); ++i) {
    if (equals_ignore_case(argv[i], "AUTH")) {
      ++i;
    } else if (equals_ignore_case(argv[i], "AUTH2")) {
      i += 2;
    } else if (equals_ignore_case(argv[i], "KEYS")) {
      add_range(i + 1, argv.size() - i - 1, positions);
      return i + 1 < argv.size();
    }
  }
  return false;
}

// The key of the sub-commands named; others (or any, for "") have none.
bool subcommand_key(Argv argv, std::string_view subcommand, std::vector<int>* positions) {
  if (argv.size() < 2) return false;
  const bool named = subcommand.empty() || equals_ignore_case(argv[1], subcommand);
  if (named && argv.size() > 2) positions->push_back(2);
  return true;
}

}  // namespace

const CommandSpec* find_command(std::string_view name) {
  if (name.empty() || name.size() > kNameMax) return nullptr;
  for (size_t at = hash_name(name) % Table::kBuckets; kTable.buckets[at] != Table::kNone;
       at = (at + 1) % Table::kBuckets) {
    const CommandSpec& spec = kTable.specs[kTable.buckets[at]];
    if (spec.name.size() == name.size() && same_name(spec.name, name)) return &spec;
  }
  return nullptr;
}

std::span<const CommandSpec> all_commands() {
  return kTable.specs;
}

size_t catalog_size() {
  return kCommands;
}

bool key_positions(const CommandSpec& spec, Argv argv, std::vector<int>* positions) {
  switch (kTable.rules[spec.index]) {
    case KeyRule::kFixed:
      return fixed_keys(spec, argv, positions);
    case KeyRule::kNumkeys1:
      return counted_keys(argv, 1, false, positions);
    case KeyRule::kNumkeys2: {
      const bool script = !spec.is(kCmdBlocking);
      return counted_keys(argv, 2, script, positions);
    }
    case KeyRule::kDestNumkeys2:
      if (argv.size() < 2) return false;
      positions->push_back(1);
      return counted_keys(argv, 2, false, positions);
    case KeyRule::kStreams:
      return stream_keys(argv, positions);
    case KeyRule::kSort:
      return sort_keys(argv, positions);
    case KeyRule::kGeoStore6:
      return geo_keys(argv, 6, positions);
    case KeyRule::kGeoStore5:
      return geo_keys(argv, 5, positions);
    case KeyRule::kMigrate:
      return migrate_keys(argv, positions);
    case KeyRule::kSubcommandKey:
      return subcommand_key(argv, "", positions);
    case KeyRule::kMemoryUsage:
      return subcommand_key(argv, "USAGE", positions);
    case KeyRule::kDebugObject:
      return subcommand_key(argv, "OBJECT", positions);
  }
  return false;
}

}  // namespace sf
