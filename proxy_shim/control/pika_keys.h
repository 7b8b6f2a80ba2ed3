// Whole keys of a Pika: everything that one name holds, read, compared, and written to the other
// side (DESIGN 6.4, I2b). A name may hold a value of each type at once (cases O01), a TTL has whole
// seconds, and ZRANGE leaves infinite scores out (O03), so sorted sets are read by ZSCAN.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/resp_client.h"

namespace sf {

// What is asked for besides the five types, by version.
struct PikaAsked {
  bool streams = false;  // since 3.5
  // 4.0 counts TTLs in milliseconds and replicates them in whole seconds: the same TTL reads up to
  // so much less on a replica.
  int64_t slack_s = 0;
};

struct PikaValue {
  struct Entry {
    std::string id;
    std::vector<std::string> parts;  // field, value, ...
    bool operator==(const Entry&) const = default;
  };
  std::optional<std::string> text;
  std::map<std::string, std::string> hash;
  std::vector<std::string> list;
  std::set<std::string> members;
  std::map<std::string, std::string> scores;
  std::vector<Entry> stream;
  int64_t until_s = 0;  // absolute, by the server's clock; 0: no TTL
  int64_t read_s = 0;   // the server's clock when it was read
  int64_t slack_s = 0;  // see PikaAsked

  bool empty() const;
  bool same_content(const PikaValue& other) const;
};

// Equal, the TTL too, but for the slack. A value whose time has come while it was looked at is no
// value.
bool same(const PikaValue& old_value, const PikaValue& new_value);
// What differs, for people: "the TTL is none, not 1796072000".
std::string difference(const PikaValue& old_value, const PikaValue& new_value);

// All of `keys`, in order. Reads only. 64 keys a round trip; `timeout_ms` for each of them.
Result<std::vector<PikaValue>> read_keys(RespClient& client, std::span<const HealKey> keys,
                                         const PikaAsked& asked, int64_t timeout_ms);

// The requests that make `is` what is `wanted`; with a slack its TTL ends that much later, never
// earlier.
std::vector<std::vector<std::string>> repair(const std::string& key, const PikaValue& is,
                                             const PikaValue& wanted);

}  // namespace sf
