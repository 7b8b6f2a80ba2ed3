// One master this node follows, and where it stands with it. Owned by SlotControl and guarded by
// its mutex; the link that moves it lives on the replication loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/strings.h"
#include "replication/history.h"
#include "replication/slot_positions.h"

namespace sf {

struct CopyProgress {
  int slots_total = 0;
  int slots_done = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
  int64_t started_us = 0;  // 0: no copy since the start
  int64_t ended_us = 0;    // 0: under way
};

struct Source {
  enum class Link { kDown, kConnecting, kCopying, kUp };

  HostPort master;
  bool gone = false;    // no longer in ReplicaState::sources: its link ends
  bool full = false;    // mirrors the master's log
  bool mirror = false;  // full: the log here is the master's (not while a first copy runs)
  SlotPositions positions;
  HistoryChain chain;  // the master's, as of the last session; empty before the first
  Link link = Link::kDown;
  std::string error;          // why the link is down; empty if it is not
  int64_t link_since_us = 0;  // mono; when it came up, or was last up, or was made
  int64_t heard_us = 0;       // mono; 0: never
  uint64_t master_seq = 0;    // newest known
  // The master's clock less this machine's monotonic one; the largest seen in this session is the
  // least delayed.
  std::optional<int64_t> clock_offset_ms;
  SlotSet storing;         // their files are being ingested, outside the mutex
  uint64_t saved_seq = 0;  // stream position on record
  int64_t saved_us = 0;
  SlotSet dropped;  // since the link last looked: to be told to the master
  CopyProgress copy;
};

const char* link_name(Source::Link link);  // "up", "down", "copying" (connecting is down)

}  // namespace sf
