// What one key looks like on one server, small enough to keep and to compare: type, absolute
// expiry, size and a 128-bit digest of the value. Values past the limits below are only marked big;
// compare_big() streams those from both sides, so memory does not grow with a key (M26, M27).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "migrator/peer.h"

namespace sf {

inline constexpr int64_t kImageStringBytes = 64 * 1024;  // longer strings are big
inline constexpr int64_t kImageElements = 256;           // longer collections are big

struct KeyImage {
  bool exists = false;
  std::string type;        // as TYPE says; "none" if it does not exist
  int64_t expire_ms = -1;  // absolute, -1 none
  int64_t count = 0;       // bytes of a string, elements of the others
  int64_t bytes = 0;       // of key and value as read
  bool big = false;
  bool unreadable =
      false;  // changed while it was read, or of a type nobody here can read: equals nothing
  std::string digest;  // of the value; element order counts where the type has one
  std::string bag;     // of a list: the same without order
};

// How a key's expiry is asked of a server.
enum class ExpiryWay { kExact, kRelative };  // PEXPIRETIME; or PTTL plus the local clock
Result<ExpiryWay> find_expiry_way(Peer& peer);

// Images of `keys`, in their order, in two pipelined rounds.
Result<std::vector<KeyImage>> read_images(Peer& peer, const std::vector<std::string>& keys,
                                          ExpiryWay way, int64_t now_ms);

// The same keys on two servers, which work at the same time.
struct ImagePair {
  std::vector<KeyImage> leader;
  std::vector<KeyImage> follower;
};
Result<ImagePair> read_image_pair(Peer& leader, Peer& follower,
                                  const std::vector<std::string>& keys, ExpiryWay leader_way,
                                  ExpiryWay follower_way, int64_t now_ms);

// "" if they are the same, else the first thing that differs: "missing", "extra", "type", "ttl",
// "order", "value". Both not big, or equal in all but the value; `follower` is the side that should
// look like `leader`.
std::string compare_images(const KeyImage& leader, const KeyImage& follower,
                           int64_t expiry_tolerance_ms);

// Streams a big key of `type` from both sides. "" if equal, else a short text saying where they
// differ.
Result<std::string> compare_big(Peer& leader, Peer& follower, const std::string& key,
                                const std::string& type);

}  // namespace sf
