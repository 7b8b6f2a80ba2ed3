// Everything the state store remembers, as it stands on the disk and in memory.
//
// Keys (values are JSON objects):
//   m                    {"format":1,"plan":..,"slots":..,"stay":..,"old":..,"new":..}
//   e                    {"epoch":n}                 highest epoch ever handed out
//   l                    {"owner":..,"epoch":n}      run lock
//   n<name>              {"value":..}                driver notes
//   h                    HealRecord
//   k<slot, db, key>     a key of the heal list; no value
//   s<slot, 2 big>       SlotRecord
//   a<number, 8 big>     audit entry; the same lines stand in <dir>/audit.jsonl for people and
//   programs
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "proxy_shim/control/slot_record.h"

namespace sf {

struct RunLock {
  std::string owner;  // "" if free
  uint64_t epoch = 0;
};

// What is known of the heal list besides its keys (heal_list.h).
struct HealRecord {
  bool clean = false;   // the shim that kept it has stopped and written all of it
  bool passed = false;  // everything older than it was compared
  std::string pair;     // the two processes it is about
};
struct ListedKey {
  int slot = 0;
  HealKey at;
  auto operator<=>(const ListedKey&) const = default;
};

// Both masters by the record: those of the plan that was last started with or adopted.
struct PairMasters {
  std::string old_side, new_side;  // host:port
};

std::string slot_key(int slot);
std::string entry_key(uint64_t number);
std::string listed_key(const ListedKey& key);
std::string epoch_text(uint64_t epoch);
std::string lock_text(const RunLock& lock);
std::string note_text(const std::string& value);
std::string heal_text(const HealRecord& record);
// Nothing if it is cut.
std::optional<ListedKey> parse_listed_key(std::string_view key);

struct StateRecords {
  std::map<int, SlotRecord> slots;
  std::map<std::string, std::string> notes;
  std::optional<HealRecord> heal;
  RunLock lock;
  PairMasters masters;
  std::optional<uint64_t> epoch;  // always there in a sound store
  uint64_t next_entry = 1;

  // One record of the disk; those that are only read when needed pass. False: damaged.
  bool take(std::string_view key, std::string_view value);

 private:
  bool take_any(std::string_view key, std::string_view value);
  bool take_object(std::string_view key, const nlohmann::json& json);
};

}  // namespace sf
