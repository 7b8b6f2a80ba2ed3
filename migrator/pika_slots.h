// Slots of a Pika in sharding mode (3.2-3.4), where each has a binlog, a role and a master of its
// own: what PKCLUSTER INFO SLOT says of them, and making them follow. Recorded from 3.4.0.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "migrator/move_context.h"
#include "migrator/peer.h"

namespace sf {

struct PikaSlotRow {
  bool is_slave = false;
  HostPort master;    // of a slave, as it was told
  std::string state;  // of a slave: "kConnected", "kWaitDBSync", "kError", ...
  int64_t file = 0;   // end of the slot's binlog
  int64_t offset = 0;
  std::vector<std::string> replicas;  // of a master
  bool link_up() const { return is_slave && state == "kConnected"; }
};

// Rows of a PKCLUSTER INFO SLOT text. A row without role or binlog_offset is kCorrupt.
Result<std::map<int, PikaSlotRow>> parse_pika_slot_rows(std::string_view text);

// Slots the server does not hold are absent.
Result<std::map<int, PikaSlotRow>> read_pika_slots(Peer& peer, const SlotSet& slots);
// As above, but kRefused with the way out if one is absent.
Result<std::map<int, PikaSlotRow>> need_pika_slots(Peer& peer, const SlotSet& slots);

// Is the slot a slave of the server at that address? (Pika may say its interface's address where it
// was told a loopback one.)
bool follows(const PikaSlotRow& row, const HostPort& master);

// Which of these slots, all held by the server, have keys. SLOTSINFO counts are not live there.
Result<SlotSet> pika_slots_with_keys(Peer& peer, const SlotSet& slots);

// Makes `slots` of the server follow `master`, each from a full copy: adds those it does not hold,
// leaves those that follow already alone (a SLOTSSLAVEOF during a copy can wedge a Pika). A slot
// that follows another server, or is a master with keys, is kRefused. Journalled as `step`'s.
Result<std::string> follow_pika_slots(MoveContext& context, std::string_view step, Peer& server,
                                      const HostPort& master, const SlotSet& slots,
                                      const std::function<Status()>& before);

}  // namespace sf
