// The schedule of a world, its clients, and the end of a seed.
#include "tests/sim/replication/world.h"

#include <algorithm>

#include "tests/sim/replication/violation.h"

namespace sf::sim {
namespace {

constexpr int64_t kSettleUs = 30'000'000;  // virtual
constexpr int kSettleTasks = 60'000;

}  // namespace

World::World(uint64_t seed, const SimOptions& options)
    : context_(seed), wanted_events_(options.events) {
  context_.trace = options.trace;
  for (int id = 0; id < kNodes; ++id) nodes_.push_back(std::make_unique<Node>(context_, id));
  // Each seed has its own mix: some faults never, some often, so that rare pairs meet.
  for (bool& allowed : allowed_) allowed = chance(0.7);
  fault_rate_ = 0.01 + 0.03 * static_cast<double>(context_.random.below(100)) / 100;
  operator_rate_ = 0.005 + 0.02 * static_cast<double>(context_.random.below(100)) / 100;
  client_rate_ = 0.1 + 0.3 * static_cast<double>(context_.random.below(100)) / 100;
}

SlotSet World::any_slots(double p) {
  SlotSet slots;
  for (int s = 0; s < kSlots; ++s) {
    if (chance(p)) slots.add(s);
  }
  if (slots.empty()) slots.add(static_cast<int>(context_.random.below(kSlots)));
  return slots;
}

void World::begin() {
  for (auto& n : nodes_) n->start();
  for (int i = 0; i < 20; ++i) client();
  node(2).slots_slave_of(0, SlotSet::range(0, 2));
  node(2).slots_slave_of(1, SlotSet::range(3, 4));
  if (chance(0.9)) node(3).slave_of(2);
  if (chance(0.9)) node(4).slave_of(0);
}

void World::run() {
  begin();
  while (events_ < static_cast<uint64_t>(wanted_events_)) event();
  heal();
  settle();
  // Not only in step but streaming: what is written now arrives too.
  for (int i = 0; i < 10; ++i) client();
  settle();
}

void World::event() {
  ++events_;
  pass_time(static_cast<int64_t>(context_.random.below(3'000)));
  double dice = static_cast<double>(context_.random.below(1'000'000)) / 1'000'000;
  if (dice < fault_rate_) {
    fault();
  } else if (dice < fault_rate_ + operator_rate_) {
    operate();
  } else if (dice < fault_rate_ + operator_rate_ + client_rate_) {
    client();
  } else if (!run_task()) {
    pass_time(static_cast<int64_t>(context_.random.below(60'000)));
  }
  if (move_ && chance(0.15)) go_on_moving();
  restart();
  check();
}

void World::check() {
  for (auto& n : nodes_) {
    n->check();
    check_claims(*n);
  }
}

// The log is kept for what a replica has safe on disk, not for what it has merely applied.
void World::check_claims(Node& n) {
  for (auto& feed : n.feeds()) {
    if (feed->over || feed->claim <= std::max<uint64_t>(1, feed->first_claim)) continue;
    const Conn* conn = context_.conn(feed->conn);
    if (conn == nullptr || conn->replica_gone) continue;
    Node& replica = node(conn->replica);
    const Link* link = replica.link_on(conn->id);
    if (link == nullptr || !replica.up()) continue;
    const uint64_t survives = replica.safe_position(*link->source, false);
    if (feed->claim > survives) {
      throw Violation(cat("node ", n.id(), " keeps its log from ", feed->claim, " only; node ",
                          replica.id(), " would be at ", survives, " after a power loss"));
    }
  }
}

// ---- time

void World::pass_time(int64_t us) {
  context_.now += us;
  if (context_.now < next_tick_) return;
  next_tick_ = context_.now + Timing::kTick;
  tick_all();
}

void World::tick_all() {
  for (auto& n : nodes_) {
    if (!n->up()) continue;
    for (auto& link : n->links()) n->tick(*link);
    for (auto& feed : n->feeds()) n->tick(*feed);
    n->drop_ended_feeds();
  }
  drop_dead_conns();
}

void World::drop_dead_conns() {
  std::erase_if(context_.conns,
                [](const auto& conn) { return conn->replica_gone && conn->master_gone; });
}

// ---- what can happen next

void World::collect_node(Node& n) {
  using Kind = Task::Kind;
  if (!n.up()) return;
  auto add = [&](Kind kind, Link* link, Feed* feed) {
    tasks_.push_back({kind, n.id(), nullptr, link, feed});
  };
  if (n.links_stale()) add(Kind::kMatch, nullptr, nullptr);
  for (auto& link : n.links()) {
    if (!link->stores.empty()) {
      if (!link->stores.back().run) add(Kind::kRunStore, link.get(), nullptr);
      if (link->stores.front().run) add(Kind::kTellStored, link.get(), nullptr);
    }
    if (link->syncing) {
      add(link->syncing->done ? Kind::kTellSynced : Kind::kFsync, link.get(), nullptr);
    }
    if (link->down_later) add(Kind::kGoDown, link.get(), nullptr);
    if (link->retry_at >= 0 && link->retry_at <= context_.now) {
      add(Kind::kRetry, link.get(), nullptr);
    }
  }
  for (auto& feed : n.feeds()) {
    if (feed->over) continue;
    if (feed->woken) add(Kind::kWake, nullptr, feed.get());
    if (feed->read) add(Kind::kRead, nullptr, feed.get());
    if (feed->got) add(Kind::kGive, nullptr, feed.get());
    if (!feed->exporting.empty() || !feed->exports.empty()) add(Kind::kExport, nullptr, feed.get());
  }
}

void World::collect_conn(Conn& conn) {
  using Kind = Task::Kind;
  auto add = [&](Kind kind) { tasks_.push_back({kind, 0, &conn, nullptr, nullptr}); };
  if (conn.dialing) {
    return add(Kind::kDial);
  }
  if (!conn.master_gone && context_.now >= conn.up_stall) {
    if (!conn.up.empty()) {
      add(Kind::kUp);
    } else if (conn.replica_gone || conn.cut) {
      add(Kind::kUpEnd);
    }
  }
  if (!conn.replica_gone && context_.now >= conn.down_stall) {
    const Link* link = node(conn.replica).link_on(conn.id);
    if (link == nullptr || link->broken) return;
    if (!conn.down.empty()) {
      add(Kind::kDown);
    } else if (conn.master_gone || conn.cut) {
      add(Kind::kDownEnd);
    }
  }
}

void World::collect() {
  tasks_.clear();
  for (auto& n : nodes_) collect_node(*n);
  for (auto& conn : context_.conns) collect_conn(*conn);
}

bool World::run_task() {
  collect();
  if (tasks_.empty()) return false;
  run(tasks_[context_.random.below(tasks_.size())]);
  return true;
}

void World::run(const Task& task) {
  Node& n = node(task.node);
  switch (task.kind) {
    case Task::Kind::kDial: {
      Conn& conn = *task.conn;
      conn.dialing = false;
      if (!node(conn.master).up()) conn.master_gone = true;
      Link* link = node(conn.replica).link_on(conn.id);
      if (!conn.master_gone && link != nullptr) node(conn.replica).connected(*link);
      break;
    }
    case Task::Kind::kUp:
      deliver_up(*task.conn);
      break;
    case Task::Kind::kDown:
      deliver_down(*task.conn);
      break;
    case Task::Kind::kUpEnd: {
      Node& master = node(task.conn->master);
      task.conn->master_gone = true;
      if (Feed* feed = master.feed_on(task.conn->id)) master.closed(*feed);
      break;
    }
    case Task::Kind::kDownEnd: {
      Node& replica = node(task.conn->replica);
      replica.closed(*replica.link_on(task.conn->id));
      break;
    }
    case Task::Kind::kMatch:
      n.match_links();
      break;
    case Task::Kind::kGoDown:
      n.go_down(*task.link);
      break;
    case Task::Kind::kRetry:
      n.retry(*task.link);
      break;
    case Task::Kind::kRunStore:
      n.run_store(*task.link);
      break;
    case Task::Kind::kTellStored:
      n.tell_stored(*task.link);
      break;
    case Task::Kind::kFsync:
      n.disk_synced(*task.link);
      break;
    case Task::Kind::kTellSynced:
      n.tell_synced(*task.link);
      break;
    case Task::Kind::kWake:
      n.wake(*task.feed);
      break;
    case Task::Kind::kRead:
      n.read(*task.feed);
      break;
    case Task::Kind::kGive:
      n.give(*task.feed);
      break;
    case Task::Kind::kExport:
      n.go_on_exporting(*task.feed);
      break;
  }
}

void World::show(const Conn& conn, const char* way, std::string_view bytes) const {
  if (!context_.trace) return;
  std::string text;
  for (size_t i = 0; i < bytes.size() && text.size() < 160; ++i) {
    if (bytes[i] == '\r') continue;
    text.push_back(bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : bytes[i] == '\n' ? ' ' : '.');
  }
  std::printf("%10.3f ms  c%d %d%s%d  %s\n", static_cast<double>(context_.now) / 1000.0, conn.id,
              conn.replica, way, conn.master, text.c_str());
}

void World::deliver_up(Conn& conn) {
  std::string bytes = std::move(conn.up.front().bytes);
  conn.up.pop_front();
  show(conn, " -> ", bytes);
  Node& master = node(conn.master);
  if (Feed* feed = master.feed_on(conn.id)) {
    master.said(*feed, bytes);
  } else {
    master.asked(conn.id, bytes);
  }
}

void World::deliver_down(Conn& conn) {
  Conn::Message message = std::move(conn.down.front());
  conn.down.pop_front();
  show(conn, " <- ", message.bytes);
  for (const auto& other : context_.conns) {
    if (!other->down.empty() && other->down.front().stamp < message.stamp) {
      context_.note(Fault::kReorder);
    }
  }
  Node& replica = node(conn.replica);
  replica.said(*replica.link_on(conn.id), message.bytes);
}

// ---- clients

std::vector<Op> World::change(Node& n, int slot) {
  auto& random = context_.random;
  std::vector<Op> ops;
  const int key = static_cast<int>(random.below(kKeys));
  const SlotData& data = n.image().slots[static_cast<size_t>(slot)];
  uint64_t old = data.value[static_cast<size_t>(key)];
  switch (random.below(8)) {
    case 0:
      ops.push_back(Op::erase(slot, key));
      break;
    case 1:  // INCR
      ops.push_back(Op::put(slot, key, old + 1));
      break;
    case 2:  // RPUSH: the value stands for the whole list
      ops.push_back(Op::put(slot, key, mix(old, next_value_++) | 1));
      break;
    case 3:  // several keys of several slots
      for (int s = 0; s < kSlots; ++s) {
        if (s == slot || (n.writable(s) && !held_[static_cast<size_t>(n.id())].contains(s) &&
                          random.chance(0.4))) {
          ops.push_back(Op::put(s, key, next_value_++));
        }
      }
      break;
    default:
      ops.push_back(Op::put(slot, key, next_value_++));
  }
  return ops;
}

void World::client() {
  Node& n = node(any_node());
  if (!n.up()) return;
  if (chance(0.03)) {  // WAITAOF
    for (auto& feed : n.feeds()) n.want_ack(*feed);
    return;
  }
  const SlotSet& held = held_[static_cast<size_t>(n.id())];
  int slot = static_cast<int>(context_.random.below(kSlots));
  if (chance(0.08)) {  // flush: a range over slots, whole or from key to key, all of them free
    int last = slot;
    while (last < kSlots && n.writable(last) && !held.contains(last)) ++last;
    if (last == slot) return;
    bool everything = slot == 0 && last == kSlots && chance(0.2);
    int key = chance(0.3) ? static_cast<int>(context_.random.below(kKeys)) : 0;
    n.commit({everything ? Op::flush_db() : Op::erase_range(slot, key, last, 0)});
    return;
  }
  if (!n.writable(slot) || held.contains(slot)) return;
  n.commit(change(n, slot));
}

// ---- the end

void World::heal() {
  quiet_ = true;
  context_.say("the faults stop");
  for (auto& n : nodes_) {
    if (!n->up()) n->start();
    n->fail_writes(0);
    for (auto& feed : n->feeds()) {
      if (!feed->room) n->set_room(*feed, true);
    }
  }
  for (auto& conn : context_.conns) conn->up_stall = conn->down_stall = 0;
  if (move_ && move_->own && move_->phase != Move::Phase::kReverse) {
    move_->phase = Move::Phase::kTakeBack;
  }
  for (int i = 0; move_ && i < 10; ++i) go_on_moving();
  move_.reset();
  held_ = {};
}

void World::settle() {
  const int64_t end = context_.now + kSettleUs;
  int tasks = 0;
  while (context_.now < end && tasks < kSettleTasks) {
    while (run_task()) {
      ++events_;
      if (++tasks > kSettleTasks) break;
      if (tasks % 8 == 0) pass_time(1'000);
      if (tasks % 4 == 0) check();
    }
    check();
    if (out_of_step().empty()) return compare();
    pass_time(Timing::kTick / 5);
  }
  throw Violation(cat("30 s after the last fault ", out_of_step()));
}

// "" when every link streams and stands at its master's end.
std::string World::out_of_step() {
  for (auto& n : nodes_) {
    if (n->links_stale()) return cat("node ", n->id(), " has not looked at its links");
    for (auto& link : n->links()) {
      const int master_id = link->source->master;
      const Image& master = node(master_id).image();
      const SlotPositions& positions = link->source->positions;
      Pos at{Oracle::number(positions.history()), positions.stream()};
      std::string who = cat("node ", n->id(), " at ", context_.oracle.text(at), " of ", master_id,
                            " at ", context_.oracle.text({master.history(), master.last()}));
      if (link->broken || !link->session || !link->session->up()) return cat(who, " has no link");
      if (!positions.without_position().empty()) return cat(who, " has slots to copy");
      if (at != Pos{master.history(), master.last()}) return who;
      if (link->source->full && master.histories != n->image().histories) {
        return cat(who, " has other histories");
      }
    }
  }
  return "";
}

void World::compare() {
  for (auto& n : nodes_) {
    for (int s = 0; s < kSlots; ++s) {
      auto source = n->source_of(s);
      if (!source) continue;
      const auto i = static_cast<size_t>(s);
      if (n->image().slots[i] != node(source->master).image().slots[i]) {
        throw Violation(
            cat("slot ", s, " of node ", n->id(), " is not its master's, node ", source->master));
      }
    }
  }
}

}  // namespace sf::sim
