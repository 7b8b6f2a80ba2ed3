// Compares the two copies of slots, both ways, while clients write (DESIGN 7, M26). The leader is
// the side that takes the writes, the follower the one that replicates it. Keys that differ are
// read again for some seconds: one is settled as soon as the follower shows a value that the leader
// was seen to have since it was found different. Memory is bounded by kSuspectsMax and does not
// grow with keys or their sizes. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "common/slots/slot_set.h"
#include "migrator/key_image.h"
#include "migrator/peer.h"
#include "migrator/stop_flag.h"

namespace sf {

struct Difference {
  int slot = 0;
  std::string key;
  std::string kind;  // missing, extra, type, value, order, ttl
  std::string text;  // for people: what each side has
};

struct VerifyResult {
  int64_t keys = 0;       // on the leader
  int64_t bytes = 0;      // of keys and values read there
  int64_t rechecked = 0;  // keys that differed at first
  int64_t differing = 0;
  std::vector<Difference> differences;  // the first kDifferencesKept
  bool ok() const { return differing == 0; }
  void add(const VerifyResult& other);
};

inline constexpr size_t kSuspectsMax = 10'000;
inline constexpr size_t kDifferencesKept = 100;
inline constexpr size_t kSeenMax = 1'000'000;

struct VerifyOptions {
  SlotSet slots;
  bool by_slot = true;      // SLOTSSCAN each slot; else SCAN the whole server and pick
  int recheck_rounds = 60;  // after 5, 10, 20, ... 250 ms: some 14 s in all
  int recheck_wait_max_ms = 250;
};

// Keys that belong to this product or to Pika's bookkeeping, not to clients (cases O05).
bool is_internal_key(std::string_view key);

class Verifier {
 public:
  // `done(n)` is called now and then: n of options.slots are finished (by_slot), or n keys seen
  // (else).
  Verifier(Peer& leader, Peer& follower, const VerifyOptions& options, const Clock& clock,
           const StopFlag& stop, std::function<void(int64_t)> done);

  // Of the database both peers have selected.
  Result<VerifyResult> run();

 private:
  struct Suspect {
    std::string key;
    std::vector<KeyImage> seen;  // on the leader
    std::string kind;
    std::string text;
  };

  Status prepare();
  Status pass_slot(int slot);
  Status pass_whole();
  Status scan(Peer& peer, int slot,
              const std::function<Status(const std::vector<std::string>&)>& page);
  Status compare_chunk(const std::vector<std::string>& keys);
  Status find_extras(const std::vector<std::string>& keys);
  void suspect(std::string key, KeyImage leader, std::string kind);
  Status recheck();
  Status recheck_round(int round);
  Result<bool> settled(Suspect& suspect, const KeyImage& follower);

  Peer& leader_;
  Peer& follower_;
  const VerifyOptions& options_;
  const Clock& clock_;
  const StopFlag& stop_;
  std::function<void(int64_t)> done_;
  ExpiryWay leader_way_ = ExpiryWay::kExact;
  ExpiryWay follower_way_ = ExpiryWay::kExact;
  int64_t tolerance_ms_ = 0;
  std::vector<Suspect> suspects_;
  // Digests of the keys the leader showed in this slot, so that the way back need not ask for each
  // again; given up (nullopt) past kSeenMax.
  std::optional<std::unordered_set<uint64_t>> seen_;
  VerifyResult result_;
};

}  // namespace sf
