// Reads that go to both sides: compare and new-then-old (read_policy.h). One worker's, its thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/loop.h"
#include "common/resp/command_catalog.h"
#include "common/slots/slot_set.h"
#include "proxy_shim/data/pending.h"
#include "proxy_shim/data/read_policy.h"

namespace sf {

class Worker;

// One read sent twice. Owned by the records that carry it; the last one's end deletes it.
struct ReadCheck {
  bool is_fallback = false;     // new-then-old; else compare
  bool is_second_look = false;  // of a fallback: the old side was asked
  bool is_spoiled = false;      // not to be compared
  bool is_unordered = false;
  bool is_map = false;
  uint8_t left = 0;  // records that carry it, and whoever is about to send one
  uint16_t slot = 0;
  int db = 0;
  std::string request;
  std::array<std::string, 2>
      replies;  // of a comparison: by Side. [0]: of a fallback, the first one
};

class ReadChecks {
 public:
  explicit ReadChecks(Worker& worker) : worker_(worker) {}
  ~ReadChecks();
  ReadChecks(const ReadChecks&) = delete;
  ReadChecks& operator=(const ReadChecks&) = delete;

  void set(const DataRules& rules) { rules_ = rules; }
  // Nothing more is sent: the connections are going.
  void stop() { is_stopped_ = true; }
  bool is_guarded() const { return rules_.guard != Guard::kOff; }
  bool is_special() const { return rules_.reads != ReadPolicy::kOwner; }

  // Before a read of one owner is sent: may attach a check to `record`. The side it is to go to.
  Side prepare(Pending* record, const CommandSpec& spec, std::string_view raw, Side owner);
  // After that, with the check counted once more: sends the copy, if `record` is to be compared.
  void send_copy(ReadCheck* check, Side owner);

  // The end of a record with a check. True: it was sent on, nothing is to be done with the reply.
  bool saw(Pending* record, std::string_view reply);
  // The front of its reply goes to the client already.
  void spoil(Pending* record);

  const ReadCheckCounts& counts() const { return counts_; }
  SlotDifferences differences() const;

 private:
  bool sampled();
  void release(ReadCheck* check);
  void judge(std::unique_ptr<ReadCheck> check);
  void look_again(std::unique_ptr<ReadCheck> check);
  void send_shadow(ReadCheck* check, Side side);
  void tell(const ReadCheck& check);

  Worker& worker_;
  DataRules rules_;
  bool is_stopped_ = false;
  int sample_ = 0;
  int in_flight_ = 0;
  ReadCheckCounts counts_;
  std::array<int64_t, kSlotCount> differences_{};
  std::map<TimerId, std::unique_ptr<ReadCheck>> later_;
};

}  // namespace sf
