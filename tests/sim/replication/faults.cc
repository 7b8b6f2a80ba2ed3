// What goes wrong in a world.
#include <algorithm>

#include "tests/sim/replication/world.h"

namespace sf::sim {

void World::fault() {
  const auto kind = static_cast<Fault>(context_.random.below(kFaults));
  if (!allowed_[static_cast<size_t>(kind)]) return;
  switch (kind) {
    case Fault::kDrop:
      return drop_conn();
    case Fault::kDelay:
      return stall_conn(false);
    case Fault::kSilence:
      return stall_conn(true);
    case Fault::kMasterKilled:
    case Fault::kMasterLost:
    case Fault::kReplicaKilled:
    case Fault::kReplicaLost:
      return crash();
    case Fault::kDiskError:
      return node(any_node()).fail_writes(1 + static_cast<int>(context_.random.below(3)));
    case Fault::kNoRoom:
      return take_room();
    case Fault::kPurged:
      return purge();
    case Fault::kFrameLost:
      return lose_message();
    default:  // the operator's; more often the rarest
      return lose_message();
  }
}

void World::drop_conn() {
  if (context_.conns.empty()) return;
  Conn& conn = *context_.conns[context_.random.below(context_.conns.size())];
  if (conn.dialing || conn.cut || conn.replica_gone || conn.master_gone) return;
  conn.cut = true;
  conn.up.resize(context_.random.below(conn.up.size() + 1));
  conn.down.resize(context_.random.below(conn.down.size() + 1));
  conn.up_stall = conn.down_stall = 0;
  context_.note(Fault::kDrop);
  context_.say("c", conn.id, " breaks");
}

void World::stall_conn(bool long_enough_to_end) {
  if (context_.conns.empty()) return;
  Conn& conn = *context_.conns[context_.random.below(context_.conns.size())];
  if (conn.dialing || conn.replica_gone || conn.master_gone) return;
  int64_t us = static_cast<int64_t>(context_.random.below(300'000));
  if (long_enough_to_end) us = Timing::kSilence + 200'000;
  const bool up = chance(0.5);
  (up ? conn.up_stall : conn.down_stall) = context_.now + us;
  context_.note(long_enough_to_end ? Fault::kSilence : Fault::kDelay);
  context_.say("c", conn.id, up ? " up" : " down", " stands still for ", us / 1000, " ms");
  if (long_enough_to_end) pass_time(Timing::kSilence / 2);
}

// No network does that; a peer gone wrong might.
void World::lose_message() {
  std::vector<Conn*> some;
  for (auto& conn : context_.conns) {
    if (conn->down.size() > 1) some.push_back(conn.get());
  }
  if (some.empty()) return;
  Conn& conn = *some[context_.random.below(some.size())];
  const auto at = static_cast<std::ptrdiff_t>(context_.random.below(conn.down.size()));
  auto is_frame = [](const Conn::Message& message) {
    return message.bytes.find("$5\r\nframe\r\n") != std::string::npos;
  };
  // The last one would be missed only when the next is sent.
  if (!is_frame(conn.down[static_cast<size_t>(at)]) ||
      std::none_of(conn.down.begin() + at + 1, conn.down.end(), is_frame)) {
    return;
  }
  conn.down.erase(conn.down.begin() + at);
  context_.note(Fault::kFrameLost);
  context_.say("c", conn.id, " loses a frame");
}

void World::crash() {
  Node& n = node(any_node());
  if (!n.up()) return;
  const bool replica = n.image().full.has_value() || !n.links().empty();
  const bool power = chance(0.5);
  n.stop();
  size_t lost = 0;
  if (power) {
    lost = n.disk().unsynced() == 0 ? 0 : 1 + context_.random.below(n.disk().unsynced());
    n.disk().lose(lost);
  }
  for (auto& conn : context_.conns) {  // what it had sent may not have left
    if (conn->replica == n.id() && conn->replica_gone) {
      conn->up.resize(context_.random.below(conn->up.size() + 1));
    }
    if (conn->master == n.id() && conn->master_gone) {
      conn->down.resize(context_.random.below(conn->down.size() + 1));
    }
  }
  const bool torn = lost > 0;
  if (replica) context_.note(torn ? Fault::kReplicaLost : Fault::kReplicaKilled);
  if (!replica) context_.note(torn ? Fault::kMasterLost : Fault::kMasterKilled);
  context_.say("node ", n.id(), " dies, ", lost, " batches are lost, its log ends at ",
               n.image().last());
}

void World::restart() {
  for (auto& n : nodes_) {
    if (n->up() || !chance(0.05)) continue;
    context_.say("node ", n->id(), " starts");
    n->start();
  }
}

void World::purge() {
  Node& n = node(any_node());
  if (!n.up() || n.image().log.empty()) return;
  const bool forced = chance(0.5);
  const uint64_t first = n.image().first + context_.random.below(n.image().log.size() + 1);
  n.purge(first, forced);
  context_.note(Fault::kPurged);
  context_.say("node ", n.id(), forced ? " loses" : " removes", " its log before ",
               n.image().first);
}

void World::take_room() {
  for (auto& n : nodes_) {
    for (auto& feed : n->feeds()) {
      if (feed->over || !chance(feed->room ? 0.3 : 0.7)) continue;
      if (feed->room) context_.note(Fault::kNoRoom);
      n->set_room(*feed, !feed->room);
    }
  }
}

}  // namespace sf::sim
