// What a node says of its slots and links. Takes ReplicaState::mutex; any thread.
#pragma once

#include <string>
#include <vector>

#include "storage_node/replica/feed.h"
#include "storage_node/replica/replica_state.h"

namespace sf {

struct SlotStatus {
  int slot = 0;
  bool master = true;
  Position at;               // own history and slot_seq, or the followed position
  std::string link = "-";    // "-", "up", "down", "copying"
  std::string fence = "no";  // "no", "leased", "permanent"
  std::string from = "-";    // host:port it is followed from
  int64_t lag = 0;           // of a followed slot: batches of the master's log; -1: unknown
};

std::vector<SlotStatus> slot_status(const ReplicaState& state, const SlotSet& slots);

// PKCLUSTER INFO SLOT: Pika 3.4's lines (contracts/pika 4.4), then ours.
std::string slot_info_text(const ReplicaState& state, const std::vector<FeedReport>& feeds,
                           const SlotSet& slots);
// INFO's replication section.
std::string replication_info_text(const ReplicaState& state, const std::vector<FeedReport>& feeds);

// ROLE's reply, encoded, as Redis has it.
std::string replication_role(const ReplicaState& state, const std::vector<FeedReport>& feeds);

}  // namespace sf
