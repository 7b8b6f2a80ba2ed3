// Both sessions against each other, in one thread, with a small model of a master's data and a
// replica's: scripts for the walks, and a seeded walk with breaks, restarts, promotes and ingests.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/coding.h"
#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/resp/request_parser.h"
#include "replication/feed_session.h"
#include "replication/follow_session.h"

namespace sf {
namespace {

std::string data_key(int slot, int n) {
  std::string key(1, '\0');
  put_big16(key, static_cast<uint16_t>(slot));
  return key + std::to_string(n);
}

using Data = std::map<std::string, std::string>;

Data of_slot(const Data& data, int slot) {
  Data out;
  for (const auto& [key, value] : data) {
    if (wire::slot_of_key(key) == slot) out[key] = value;
  }
  return out;
}

void apply_op(Data& data, const wire::StreamOp& op) {
  std::string key(op.key);
  if (op.kind == 1) data[key] = op.value;
  if (op.kind == 2) data.erase(key);
  if (op.kind == 3) data.erase(data.lower_bound(key), data.lower_bound(std::string(op.value)));
}

struct Change {
  uint8_t kind;
  std::string key;
  std::string value;
};

// A master: a log, the data it makes, and every state it went through.
struct Master {
  explicit Master(uint64_t seed) : random(seed) { restart(0); }

  Random random;
  HistoryChain chain;
  std::vector<std::vector<Change>> log;  // log[i] is seq i+1; empty: a reload of reload_slot
  std::map<uint64_t, int> reloads;
  std::vector<Data> states{{}};  // after seq i
  uint64_t oldest = 1;
  uint64_t last() const { return log.size(); }
  const Data& data() const { return states.back(); }

  // Power loss of `lost` batches, then a new history.
  void restart(uint64_t lost) {
    log.resize(log.size() - std::min<uint64_t>(lost, log.size()));
    states.resize(log.size() + 1);
    oldest = std::min(oldest, last() + 1);
    while (!reloads.empty() && reloads.rbegin()->first > last())
      reloads.erase(std::prev(reloads.end()));
    promote();
  }
  void promote() { REQUIRE(chain.add({random.hex(40), chain.current(), last()})); }
  void write(std::vector<Change> changes) {
    Data next = data();
    for (const Change& c : changes) apply_op(next, {c.kind, 0, c.key, c.value});
    log.push_back(std::move(changes));
    states.push_back(std::move(next));
  }
  void ingest(int slot) {
    Data next = data();
    std::erase_if(next, [&](const auto& item) { return wire::slot_of_key(item.first) == slot; });
    next[data_key(slot, 999)] = random.hex(6);
    log.emplace_back();
    reloads[last()] = slot;
    states.push_back(std::move(next));
  }
  void random_write() {
    int slot = static_cast<int>(random.below(4));
    if (random.chance(0.05)) return ingest(slot);
    if (random.chance(0.05)) {  // a flush as one range over all slots
      std::string end(1, '\1');
      return write({{3, std::string(1, '\0'), end}});
    }
    std::vector<Change> changes;
    for (uint64_t n = random.below(3) + 1; n > 0; --n) {
      int at = random.chance(0.3) ? static_cast<int>(random.below(4)) : slot;
      std::string key = data_key(at, static_cast<int>(random.below(5)));
      changes.push_back({static_cast<uint8_t>(random.chance(0.25) ? 2 : 1), key, random.hex(4)});
    }
    write(std::move(changes));
  }
};

// A replica's disk: what survives a kill.
struct Replica {
  Data data;
  SlotPositions positions;
  std::map<int, std::optional<Position>> saved;  // as the records say
};

class Pair {
 public:
  Pair(Master& master, Replica& replica, int64_t now = 0)
      : master_(master),
        replica_(replica),
        feed_(limits(), now),
        follow_({"replica", 1, false, "", {}}, replica.positions, now) {
    follow({follow::Connected{}});
  }

  static FeedLimits limits() {
    FeedLimits out;
    out.exports = 2;
    return out;
  }
  FeedSession& feed() { return feed_; }
  FollowSession& session() { return follow_; }
  uint64_t kept() const { return kept_; }
  bool storing(int slot) const { return pending_stores_.contains(slot); }
  int rewinds() const { return static_cast<int>(follow_.rewinds()); }
  bool ended() const { return ended_; }
  std::string why;
  bool copy_again = false;
  bool slow_disk = false;  // no copy gets stored
  int copies = 0;

  // Moves one message of either direction, or lets the master look at its log. False: nothing to
  // do.
  bool turn(Random& random) {
    if (ended_) return false;
    bool first = random.chance(0.5);
    for (int i = 0; i < 2; ++i) {
      if ((i == 0) == first ? deliver_to_master() : deliver_to_replica()) return true;
    }
    if (!pending_exports_.empty()) {
      size_t at = random.below(pending_exports_.size());
      int slot = pending_exports_[at];
      pending_exports_.erase(pending_exports_.begin() + static_cast<std::ptrdiff_t>(at));
      export_slot(slot);
      return true;
    }
    if (!pending_stores_.empty() && !slow_disk) {
      store(pending_stores_.extract(pending_stores_.begin()).mapped());
      return true;
    }
    if (feed_.state() == FeedSession::State::kStreaming && feed_.sent() < master_.last()) {
      feed_step(feed::LogMoved{});
      return true;
    }
    if (feed_.state() == FeedSession::State::kStreaming && seen_ < master_.chain.entries().size()) {
      feed_step(feed::LogMoved{});
      return true;
    }
    return false;
  }
  void settle(Random& random) {
    for (int n = 0; n < 20000 && turn(random); ++n) {
    }
  }
  void tick(int64_t now) {
    now_ = now;
    feed_step(feed::Tick{now / 1000});
    follow({follow::Tick{}});
  }
  void say(std::string bytes) { to_replica_ += bytes; }
  // Verbs of the replica.
  void add(int slot, std::optional<Position> at = std::nullopt) {
    replica_.positions.follow(slot, at);
    replica_.saved[slot] = at;
    follow({follow::Changed{}});
  }
  void drop(int slot) {
    replica_.positions.drop(SlotSet::of(slot));
    replica_.saved.erase(slot);
    chunks_.erase(slot);
    follow({follow::Dropped{SlotSet::of(slot)}});
  }

 private:
  void follow(const follow::Event& event) {
    for (auto& action : follow_.step(event, now_)) {
      if (auto* send = std::get_if<follow::Send>(&action)) to_master_ += send->bytes;
      if (auto* accepted = std::get_if<follow::Accepted>(&action)) {
        accepted->hello.copy.for_each([&](int slot) { replica_.saved[slot].reset(); });
      }
      if (auto* took = std::get_if<follow::Took>(&action)) {
        took->copy.for_each([&](int slot) { replica_.saved[slot].reset(); });
      }
      if (auto* chunk = std::get_if<follow::StoreChunk>(&action)) {
        chunks_[chunk->chunk.slot] = chunk->chunk.bytes;
      }
      if (auto* slot = std::get_if<follow::StoreSlot>(&action)) {
        pending_stores_[slot->done.slot] = *slot;
      }
      if (auto* apply = std::get_if<follow::Apply>(&action)) run_apply(*apply);
      if (auto* fail = std::get_if<follow::Fail>(&action)) {
        ended_ = true;
        why = fail->why.text();
        copy_again = fail->kind == follow::Fail::Kind::kCopyAgain;
      }
      if (ended_) return;
    }
  }

  void run_apply(const follow::Apply& apply) {
    for (const wire::Record& record : apply.records) {
      for (const wire::StreamOp& op : record.ops) apply_op(replica_.data, op);
    }
    follow({follow::Applied{apply.to}});
    save();
  }

  void store(const follow::StoreSlot& action) {
    ++copies;
    int slot = action.done.slot;
    std::erase_if(replica_.data, [&](const auto& i) { return wire::slot_of_key(i.first) == slot; });
    std::string chunk = std::move(chunks_[slot]);
    chunks_.erase(slot);
    std::string_view in = chunk;
    std::string_view key;
    std::string_view value;
    while (take_bytes(in, &key) && take_bytes(in, &value)) replica_.data[std::string(key)] = value;
    follow({follow::Stored{slot}});
    save();
  }

  void save() {
    for (int slot : replica_.positions.slots().to_vector()) {
      replica_.saved[slot] = replica_.positions.position(slot);
    }
  }

  void feed_step(const feed::Event& event) {
    for (auto& action : feed_.step(event, now_)) {
      if (auto* send = std::get_if<feed::Send>(&action)) to_replica_ += send->bytes;
      if (auto* read = std::get_if<feed::ReadLog>(&action)) read_log(read->after);
      if (auto* keep = std::get_if<feed::KeepLog>(&action)) kept_ = keep->from;
      if (auto* slot = std::get_if<feed::Export>(&action)) pending_exports_.push_back(slot->slot);
      if (std::holds_alternative<feed::Close>(action)) {
        closed_ = true;
        if (to_replica_.empty()) ended_ = true;
      }
    }
  }

  std::vector<History> new_histories() {
    const auto& all = master_.chain.entries();
    std::vector<History> out(all.begin() + static_cast<std::ptrdiff_t>(seen_), all.end());
    seen_ = all.size();
    return out;
  }

  void read_log(uint64_t after) {
    if (after + 1 < master_.oldest) return feed_step(feed::LogPurged{after});
    feed::LogRead read;
    read.after = after;
    for (uint64_t seq = after + 1; seq <= master_.last() && read.entries.size() < 3; ++seq) {
      feed::LogRead::Entry entry;
      entry.record.seq = seq;
      entry.reload = master_.reloads.contains(seq);
      if (entry.reload) entry.reload_slots = SlotSet::of(master_.reloads[seq]);
      for (const Change& c : master_.log[seq - 1])
        entry.record.ops.push_back({c.kind, 0, c.key, c.value});
      read.entries.push_back(std::move(entry));
    }
    read.histories = new_histories();
    feed_step(read);
  }

  void export_slot(int slot) {
    std::string bytes;
    for (const auto& [key, value] : of_slot(master_.data(), slot)) {
      put_bytes(bytes, key);
      put_bytes(bytes, value);
    }
    Position at{master_.chain.current(), master_.last()};
    if (!bytes.empty()) feed_step(feed::ExportChunk{slot, 0, 1, bytes});
    feed_step(feed::ExportDone{slot, at, 1, new_histories()});
  }

  bool deliver_to_master() {
    if (to_master_.empty() || closed_) return false;
    RequestParser parser;
    Request request;
    std::string bytes = to_master_;
    REQUIRE(parser.parse(bytes, &request) == RequestParser::Outcome::kRequest);
    to_master_.erase(0, parser.consumed());
    auto message = wire::decode_replica(request.argv);
    REQUIRE(message);
    if (auto* sync = std::get_if<wire::Sync>(&*message)) {
      seen_ = master_.chain.entries().size();
      feed_step(feed::Asked{*sync, master_.chain, master_.last(), master_.oldest, 0, false, "",
                            "master"});
    } else if (auto* want = std::get_if<wire::Want>(&*message)) {
      uint64_t last = master_.last();
      feed_step(feed::Wanted{*want, last, master_.oldest, 0, false, new_histories()});
    } else {
      feed_step(feed::Said{std::move(*message)});
    }
    return true;
  }

  bool deliver_to_replica() {
    if (to_replica_.empty()) return false;
    RequestParser parser;
    Request request;
    std::string bytes = to_replica_;
    REQUIRE(parser.parse(bytes, &request) == RequestParser::Outcome::kRequest);
    to_replica_.erase(0, parser.consumed());
    auto message = wire::decode_master(request.argv);
    REQUIRE(message);
    follow({follow::Said{std::move(*message)}});
    if (closed_ && to_replica_.empty()) ended_ = true;
    return true;
  }

  Master& master_;
  Replica& replica_;
  FeedSession feed_;
  FollowSession follow_;
  std::string to_master_;
  std::string to_replica_;
  std::map<int, std::string> chunks_;
  std::map<int, follow::StoreSlot> pending_stores_;
  uint64_t kept_ = 0;
  std::vector<int> pending_exports_;
  size_t seen_ = 0;
  bool ended_ = false;
  bool closed_ = false;
  int64_t now_ = 0;
};

// The rule everything is for: a slot that claims a position in the master's log has the data of it.
void check_truth(const Master& master, const Replica& replica) {
  for (int slot = 0; slot < 4; ++slot) {
    auto at = replica.positions.position(slot);
    if (!at || !master.chain.is_prefix(*at, master.last())) continue;
    CAPTURE(slot);
    CAPTURE(at->text());
    bool same = of_slot(replica.data, slot) == of_slot(master.states[at->seq], slot);
    REQUIRE(same);
  }
}

TEST_CASE("sessions: copy, join and stream give each slot the master's data (copyjoin)") {
  Master master(1);
  for (int i = 0; i < 30; ++i) master.random_write();
  Replica replica;
  for (int slot : {1, 2}) replica.positions.follow(slot, std::nullopt);
  replica.data[data_key(1, 77)] = "left-over";
  replica.data[data_key(3, 1)] = "ours";
  Pair pair(master, replica);
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    if (i % 3 == 0) master.random_write();
    pair.turn(random);
    check_truth(master, replica);
  }
  pair.settle(random);
  CHECK(pair.session().up());
  check_truth(master, replica);
  CHECK(replica.positions.position(1)->seq == master.last());
  CHECK(pair.feed().acked() == master.last());
  CHECK(replica.data[data_key(3, 1)] ==
        "ours");  // not followed: not touched by any flush (I: clipped)
}

TEST_CASE("sessions: a reload is fetched again, then the stream goes on") {
  Master master(2);
  master.write({{1, data_key(1, 1), "a"}});
  Replica replica;
  replica.positions.follow(1, std::nullopt);
  replica.positions.follow(2, std::nullopt);
  Pair pair(master, replica);
  Random random(1);
  pair.settle(random);
  CHECK(pair.copies == 2);
  master.ingest(1);
  master.write({{1, data_key(2, 1), "b"}});
  pair.settle(random);
  CHECK(pair.copies == 3);
  CHECK(pair.session().up());
  check_truth(master, replica);
  CHECK(replica.positions.position(2)->seq == master.last());
}

TEST_CASE("sessions: a promote on the master is told before its first batch") {
  Master master(3);
  Replica replica;
  replica.positions.follow(0, std::nullopt);
  Pair pair(master, replica);
  Random random(1);
  pair.settle(random);
  master.write({{1, data_key(0, 1), "a"}});
  master.promote();
  pair.settle(random);
  CHECK(replica.positions.position(0) == Position{master.chain.current(), 1});
  master.write({{1, data_key(0, 1), "b"}});
  pair.settle(random);
  CHECK(replica.positions.position(0) == Position{master.chain.current(), 2});
  CHECK(pair.session().up());
}

TEST_CASE("sessions: a lost tail is copied, not merged (R21); a prefix goes on without a copy") {
  Master master(4);
  for (int i = 0; i < 10; ++i) master.write({{1, data_key(0, i), "v"}});
  Replica replica;
  replica.positions.follow(0, std::nullopt);
  Random random(1);
  {
    Pair pair(master, replica);
    pair.settle(random);
  }
  replica.positions.end_session();
  master.restart(0);
  {
    Pair pair(master, replica);
    pair.settle(random);
    CHECK(pair.copies == 0);
  }
  replica.positions.end_session();
  master.write({{1, data_key(0, 50), "v"}});
  {
    Pair pair(master, replica);
    pair.settle(random);
  }
  replica.positions.end_session();
  master.restart(1);  // the last one is lost
  master.write({{1, data_key(0, 51), "other"}});
  Pair pair(master, replica);
  pair.settle(random);
  CHECK(pair.copies == 1);
  check_truth(master, replica);
}

TEST_CASE("sessions: a purged log is said, and ends in a copy") {
  Master master(5);
  for (int i = 0; i < 10; ++i) master.write({{1, data_key(0, i), "v"}});
  Replica replica;
  replica.positions.follow(0, Position{master.chain.current(), 2});
  for (int i = 0; i < 2; ++i) replica.data[data_key(0, i)] = "v";
  master.oldest = 6;
  Random random(1);
  Pair pair(master, replica);
  pair.settle(random);
  CHECK(pair.copies == 1);
  check_truth(master, replica);
  // While it streams.
  master.write({{1, data_key(0, 1), "w"}});
  master.oldest = 12;
  master.write({{1, data_key(0, 1), "x"}});
  pair.settle(random);
  CHECK(pair.ended());
  CHECK(pair.copy_again);
}

TEST_CASE("sessions: silence ends both sides, keep-alives prevent it (R22, R26)") {
  Master master(6);
  Replica replica;
  replica.positions.follow(0, std::nullopt);
  Random random(1);
  Pair pair(master, replica);
  pair.settle(random);
  for (int64_t second = 1; second <= 30; ++second) {
    pair.tick(second * 1'000'000);
    pair.settle(random);
  }
  CHECK(pair.session().up());
  CHECK(pair.feed().state() == FeedSession::State::kStreaming);
  pair.tick(41'000'001);
  CHECK(pair.ended());
  CHECK(pair.feed().state() == FeedSession::State::kClosed);
  CHECK(pair.why == "the master said nothing for 10 s");
}

std::string frame(uint64_t from, uint64_t to) {
  std::string out;
  wire::encode(out, wire::FromMaster(wire::Frame{from, to, 0, 0, ""}));
  return out;
}

TEST_CASE("sessions: a frame from elsewhere is refused (R13)") {
  for (auto [from, to] : {std::pair<uint64_t, uint64_t>{5, 6}, {0, 3}}) {
    Master master(7);
    master.write({{1, data_key(0, 1), "a"}});
    Replica replica;
    replica.positions.follow(0, std::nullopt);
    Random random(1);
    Pair pair(master, replica);
    pair.settle(random);
    pair.say(frame(from, to));
    pair.settle(random);
    CHECK(pair.ended());
  }
}

TEST_CASE("sessions: refusals and wrong passwords are told in words") {
  SlotPositions positions;
  positions.follow(0, std::nullopt);
  FollowSession session({"me", 1, false, "pw"}, positions, 0);
  CHECK(session.step(follow::Connected{}, 0).size() == 1);
  auto actions = session.step(follow::Line{"-WRONGPASS invalid password"}, 0);
  REQUIRE(actions.size() == 1);
  CHECK(std::get<follow::Fail>(actions[0]).why.text() ==
        "the master refused the password (masterauth): WRONGPASS invalid password");
  FeedSession feed({}, 0);
  feed::Asked self;
  self.sync = {wire::kProtocol, "same", 1, false, {{SlotSet::of(1), {}}}};
  self.run_id = "same";
  CHECK(feed.step(self, 0).size() == 2);
  CHECK(feed.state() == FeedSession::State::kClosed);
}

TEST_CASE("sessions: a slot added while the link streams is copied beside it (R12)") {
  Master master(8);
  for (int i = 0; i < 5; ++i) master.write({{1, data_key(0, i), "v"}, {1, data_key(1, i), "w"}});
  Replica replica;
  replica.positions.follow(0, std::nullopt);
  Pair pair(master, replica);
  Random random(1);
  pair.settle(random);
  pair.slow_disk = true;
  pair.add(1);
  CHECK(pair.session().up());
  // Up to the master's word that the copy is complete: the slot is not stored yet.
  while (!pair.storing(1)) REQUIRE(pair.turn(random));
  master.write({{1, data_key(0, 9), "during"}, {1, data_key(1, 9), "during"}});
  while (replica.positions.position(0)->seq < master.last()) REQUIRE(pair.turn(random));
  CHECK_FALSE(replica.positions.position(1));
  CHECK(pair.kept() == 5);  // the way back is kept
  pair.slow_disk = false;
  pair.settle(random);
  CHECK(pair.rewinds() == 1);
  CHECK(pair.session().up());
  for (int slot : {0, 1}) CHECK(replica.positions.position(slot)->seq == master.last());
  check_truth(master, replica);
  CHECK(pair.feed().copying().empty());
  CHECK(pair.feed().acked() == master.last());
}

TEST_CASE("sessions: a slot taken back behind the stream is not copied, and the others skip (I3)") {
  Master master(9);
  master.write({{1, data_key(0, 1), "a"}, {1, data_key(1, 1), "a"}});
  Replica replica;
  for (int slot : {0, 1}) replica.positions.follow(slot, std::nullopt);
  Pair pair(master, replica);
  Random random(1);
  pair.settle(random);
  Position left = *replica.positions.position(1);
  pair.drop(1);
  for (int i = 0; i < 9; ++i) master.write({{1, data_key(0, i), "b"}, {1, data_key(1, i), "b"}});
  pair.settle(random);
  CHECK(replica.data[data_key(1, 1)] == "a");
  pair.add(1, left);
  pair.settle(random);
  CHECK(pair.copies == 2);
  CHECK(pair.rewinds() == 1);
  for (int slot : {0, 1}) CHECK(replica.positions.position(slot)->seq == master.last());
  check_truth(master, replica);
}

TEST_CASE("sessions: a slot dropped and added again while its copy comes is copied once more") {
  Master master(10);
  master.write({{1, data_key(0, 1), "a"}, {1, data_key(1, 1), "a"}});
  Replica replica;
  replica.positions.follow(0, std::nullopt);
  Pair pair(master, replica);
  Random random(1);
  pair.settle(random);
  pair.add(1);
  for (int i = 0; i < 3; ++i) pair.turn(random);
  pair.drop(1);
  replica.data[data_key(1, 5)] = "left-over";
  pair.add(1);
  pair.settle(random);
  CHECK(pair.session().up());
  CHECK(replica.positions.position(1)->seq == master.last());
  check_truth(master, replica);
}

TEST_CASE("sessions: getack follows the frame that is waited for, and is not asked in vain") {
  Master master(11);
  FeedSession feed(FeedLimits{}, 0);
  feed::Asked asked;
  asked.sync = {wire::kProtocol, "replica", 1, true, {{SlotSet::all(), {}}}};
  asked.run_id = "master";
  asked.chain = master.chain;
  feed.step(asked, 0);
  feed.step(feed::Said{wire::StreamFrom{{master.chain.current(), 0}}}, 0);
  CHECK(feed.step(feed::AckWanted{2}, 0).empty());
  auto read = [&](uint64_t after) {
    feed::LogRead log;
    log.after = after;
    log.entries.push_back({{after + 1, 1, {}}, false, {}});
    auto actions = feed.step(log, 0);
    return std::count_if(actions.begin(), actions.end(), [](const feed::Action& action) {
      auto* send = std::get_if<feed::Send>(&action);
      return send != nullptr && send->bytes.find("getack") != std::string::npos;
    });
  };
  CHECK(read(0) == 0);
  CHECK(read(1) == 1);
  CHECK(read(2) == 0);
  feed.step(feed::Said{wire::Ack{3, 3}}, 0);
  CHECK(feed.step(feed::AckWanted{3}, 0).empty());
}

// Slots come and go while everything else happens, too.
struct Walk {
  explicit Walk(uint64_t seed) : random(seed), master(seed * 7) {
    for (int slot = 0; slot < 3; ++slot) replica.positions.follow(slot, std::nullopt);
    replica.data[foreign] = "ours";
    connect();
  }

  Random random;
  Master master;
  Replica replica;
  std::unique_ptr<Pair> pair;
  std::map<int, Position> left;  // slots dropped where they stood, nobody wrote since
  const std::string foreign = data_key(3, 1);

  void connect() {
    bool again = pair && pair->copy_again;
    pair.reset();
    replica.positions.end_session();
    if (again) replica.positions.need_copy(replica.positions.slots());
    pair = std::make_unique<Pair>(master, replica);
  }
  void verb() {
    int slot = static_cast<int>(random.below(3));
    if (!replica.positions.follows(slot)) {
      if (left.contains(slot) && random.chance(0.5)) return pair->add(slot, left[slot]);
      replica.data[data_key(slot, 66)] = "left-over";
      left.erase(slot);
      return pair->add(slot);
    }
    if (pair->storing(slot) || replica.positions.slots().size() == 1) return;
    left.erase(slot);
    if (auto at = replica.positions.position(slot)) left[slot] = *at;
    pair->drop(slot);
  }
  void step() {
    if (random.chance(0.3)) master.random_write();
    if (random.chance(0.01)) master.promote();
    bool master_dies = random.chance(0.01);
    if (master_dies) master.restart(random.below(3));
    if (random.chance(0.01)) {  // as much as the claims allow
      uint64_t purge = std::min(master.last() - master.last() / 4, pair->kept() + 1);
      master.oldest = std::max(master.oldest, purge);
    }
    bool broken = master_dies || random.chance(0.01);
    if (!broken && pair->ended()) FAIL("ended by itself: " << pair->why);
    bool killed = random.chance(0.01);
    if (killed) {  // only what the records say is left
      for (int slot : replica.positions.slots().to_vector()) {
        replica.positions.follow(slot, replica.saved[slot]);
      }
    }
    if (broken || killed) connect();
    if (random.chance(0.02)) verb();
    if (random.chance(0.05)) pair->slow_disk = !pair->slow_disk;
    pair->turn(random);
    check_truth(master, replica);
    REQUIRE(replica.data[foreign] == "ours");
  }
  void settle() {
    for (int tries = 0; tries < 5; ++tries) {
      pair->slow_disk = false;
      pair->settle(random);
      if (!pair->ended()) break;
      connect();
    }
    REQUIRE(pair->session().up());
    for (int slot : replica.positions.slots().to_vector()) {
      REQUIRE(replica.positions.position(slot)->seq == master.last());
    }
    check_truth(master, replica);
  }
};

TEST_CASE("sessions: seeded walks with breaks, kills, lost tails, promotes, purges and verbs") {
  int rewinds = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Walk walk(seed);
    for (int step = 0; step < 500; ++step) walk.step();
    walk.settle();
    rewinds += walk.pair->rewinds();
  }
  CHECK(rewinds > 100);
}

}  // namespace
}  // namespace sf
