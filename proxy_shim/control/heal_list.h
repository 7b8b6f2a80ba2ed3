// The heal list (DESIGN 6.4, I2b): keys that the new side may hold otherwise than the old one,
// because a write to them is replicated wrongly or was never answered, or because a comparison
// found them different. Every write since the list began is in it, if it must be; what is older was
// compared by a pass (heal_pass.h).
//
// It begins anew, empty and not passed, after a shim that did not stop cleanly (its last notes are
// lost), when it or a worker's notes ran over their bound, and when the keys of another pair of
// processes are to be judged it counts as not passed. Kept in the state store; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "common/ops/log.h"
#include "common/slots/slot_set.h"
#include "proxy_shim/control/state_store.h"
#include "proxy_shim/data/data_plane.h"

namespace sf {

struct HealLimits {
  size_t keys_max = 200'000;
  size_t bytes_max = 32UL << 20;
};

class HealList {
 public:
  // `store` outlives it.
  HealList(StateStore* store, Log log, HealLimits limits = {})
      : store_(store), log_(std::move(log)), limits_(limits) {}

  // Before the first write passes; again: nothing happens. The store says from here on that the
  // list is in use: a shim that ends without close() leaves it void.
  Status open();
  bool is_open() const;
  // The last notes were added: what stands on the disk is the whole list.
  Status close();

  // Brings what the workers have noted. When it returns, every note of a write sent before the call
  // is on the list, whoever brought it.
  void take_from(DataPlane& plane);
  void add(const KeyNotes& notes);
  void add(const std::vector<ListedKey>& found);

  // A key as it stands: drop() takes it only if it was not noted again since.
  struct Snapshot {
    ListedKey key;
    uint64_t noted = 0;
  };
  std::vector<Snapshot> keys(const SlotSet& slots) const;
  void drop(const std::vector<Snapshot>& equal);
  void forget(const SlotSet& slots);  // they were switched
  int64_t size() const;

  // A pass is about one life of the list: `life` is read when it begins.
  uint64_t life() const;
  bool passed() const;
  void set_passed(uint64_t life);
  // Writes may have gone by unnoted since: both sides are compared again. What is listed stays.
  void expire_pass(const std::string& why);
  // The processes judged now; other ones than before were not compared.
  void expect_pair(const std::string& pair);
  void set_progress(const std::string& text);  // of the pass, for people
  void set_faults(const std::string& text);

  struct Report {
    bool open = false;
    int64_t keys = 0;
    int64_t compared = 0;  // since the start, with writes held
    int64_t healed = 0;
    std::string state;   // "off", "complete", or why not
    std::string faults;  // what a trial found out about the pair
  };
  Report report() const;
  void count_healing(int64_t compared, int64_t healed);

 private:
  void add_locked(const std::vector<ListedKey>& keys);
  void begin_anew_locked(const std::string& why);
  void save_locked(const std::vector<ListedKey>& add, const std::vector<ListedKey>& drop);

  StateStore* const store_;
  const Log log_;
  const HealLimits limits_;
  std::mutex taking_;         // held from a worker's buffer to the list
  mutable std::mutex mutex_;  // everything below
  bool open_ = false;
  HealRecord record_;
  std::map<ListedKey, uint64_t> keys_;  // by slot first; the number of the last note
  size_t bytes_ = 0;
  uint64_t next_note_ = 1;
  uint64_t life_ = 1;
  std::string why_;  // it began anew; "" if it goes on since the first start
  std::string progress_;
  std::string faults_;
  int64_t compared_ = 0;
  int64_t healed_ = 0;
};

}  // namespace sf
