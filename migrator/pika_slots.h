// Slots of a Pika in sharding mode (3.2-3.4), where each has a binlog, a role and a master of its
// own: what PKCLUSTER INFO SLOT says of them, and making them follow. Recorded from 3.4.0.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/pika/pika_status.h"
#include "migrator/move_context.h"
#include "migrator/peer.h"

namespace sf {

// Slots the server does not hold are absent.
Result<std::map<int, PikaSlot>> read_pika_slots(Peer& peer, const SlotSet& slots);
// As above, but kRefused with the way out if one is absent.
Result<std::map<int, PikaSlot>> need_pika_slots(Peer& peer, const SlotSet& slots);

// Is the slot a slave of the server at that address? (Pika may say its interface's address where it
// was told a loopback one.)
bool follows(const PikaSlot& row, const HostPort& master);
inline bool link_up(const PikaSlot& row) {
  return row.link == PikaLink::kUp;
}

// Which of these slots, all held by the server, have keys. SLOTSINFO counts are not live there.
Result<SlotSet> pika_slots_with_keys(Peer& peer, const SlotSet& slots);

// Makes `slots` of the server follow `master`, each from a full copy: adds those it does not hold,
// leaves those that follow already alone (a SLOTSSLAVEOF during a copy can wedge a Pika). A slot
// that follows another server, or is a master with keys, is kRefused. Journalled as `step`'s.
Result<std::string> follow_pika_slots(MoveContext& context, std::string_view step, Peer& server,
                                      const HostPort& master, const SlotSet& slots,
                                      const std::function<Status()>& before);

}  // namespace sf
