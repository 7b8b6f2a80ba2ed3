// Codis-proxy's own command table, as recorded (contracts/codis 3.3): which commands it refuses,
// and which may go to a replica.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sf::codis {

enum OpFlag : uint32_t {
  kOpWrite = 1U << 0,
  kOpMayWrite = 1U << 1,
  kOpMasterOnly = 1U << 2,
  kOpNotAllow = 1U << 3,
};

struct Op {
  std::string_view name;  // upper case
  uint32_t flags;
  bool read_only() const { return (flags & (kOpWrite | kOpMayWrite)) == 0; }
  bool for_replica() const { return (flags & (kOpWrite | kOpMayWrite | kOpMasterOnly)) == 0; }
};

// The entry of a command; commands not in the table, and every name with a character other than
// letters or ':' (the hole of 3.3: entries with '-' are never found), get a "may write" entry.
const Op& find_op(std::string_view name);

}  // namespace sf::codis
