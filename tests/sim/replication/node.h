// A node in model form: the data, log and records of disk.h, and around the real FeedSession,
// FollowSession and SlotPositions what storage_node/replica does: verbs (slot_control), links
// (link, follow_store), feeds (feed, feed_exporter). It follows those files step by step, so that
// what is found here is looked for there.
//
// One thread. Whatever runs on another thread there is a task here, done when the schedule says.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replication/feed_session.h"
#include "replication/follow_session.h"
#include "tests/sim/replication/context.h"
#include "tests/sim/replication/disk.h"

namespace sf::sim {

struct Timing {  // a tenth of the real ones: a seed is a few virtual seconds
  static constexpr int64_t kPing = 100'000;
  static constexpr int64_t kSilence = 1'000'000;
  static constexpr int64_t kTick = 25'000;
  static constexpr int64_t kSync = 100'000;
  static constexpr int64_t kFirstRetry = 2'000;
  static constexpr int64_t kLastRetry = 100'000;
  static constexpr int64_t kFinalRetry = 500'000;
};

// One master a node follows, as storage_node/replica/source.h.
struct Source {
  int master = -1;
  bool gone = false;
  bool full = false;
  bool mirror = false;
  SlotPositions positions;
  HistoryChain chain;
  SlotSet storing;
  uint64_t saved_seq = 0;
  SlotSet dropped;
};

struct Link {
  std::shared_ptr<Source> source;
  std::optional<FollowSession> session;
  int conn = 0;         // 0: none
  uint64_t number = 0;  // of the session
  bool broken = false;
  bool connect_waits = false;
  std::deque<follow::Action> queue;
  std::map<int, std::string> files;  // by slot
  struct Store {                     // on the thread that stores slots, in order
    follow::StoreSlot action;
    SlotData data;
    Disk::Batch batch;
    uint64_t session = 0;
    bool run = false;  // in place, or not: not yet told
    bool done = false;
  };
  std::deque<Store> stores;
  bool down_later = false;  // failed: the rest at the turn's end
  bool copy_again = false;  // with it
  int64_t wait = 0;         // with it
  int64_t retry_at = -1;    // -1: no retry is due
  int64_t backoff = Timing::kFirstRetry;
  int64_t synced_at = 0;
  uint64_t synced_seq = 0;
  struct Syncing {
    uint64_t seq = 0;
    uint64_t session = 0;
    uint64_t rewinds = 0;
    bool done = false;
  };
  bool sync_wanted = false;
  std::optional<Syncing> syncing;
  uint64_t acked = 0;  // the last ack of this session, for the monotony check
};

struct Feed {
  Feed(int connection, int64_t now)
      : conn(connection), session({Timing::kPing, Timing::kSilence, 2}, now) {}
  int conn;
  FeedSession session;
  bool over = false;
  size_t histories_seen = 0;
  uint64_t generation = 0;
  uint64_t claim = 0;
  uint64_t first_claim = 0;  // of this session: what it was begun with
  bool kept = true;          // nobody removed log files this feed had a claim on
  bool cut = false;          // they did, and the session will be told at the next tick
  bool woken = false;
  bool room = true;
  std::optional<uint64_t> read;  // asked for
  struct Got {
    uint64_t after = 0;
    bool purged = false;
    std::vector<std::pair<uint64_t, uint32_t>> entries;  // seq, number
  };
  std::optional<Got> got;  // read from the files, not yet given to the session
  std::deque<int> exports;
  struct Exporting {
    int slot = 0;
    uint64_t seq = 0;
    std::optional<Pos> at;
    std::vector<std::string> pieces;
    size_t sent = 0;
  };
  std::vector<Exporting> exporting;  // begun
};

struct Lease {
  uint64_t epoch = 0;
  int64_t until = 0;  // 0: none
  uint64_t seq = 0;
};

class Node {
 public:
  Node(Context& context, int id) : context_(context), id_(id) {}

  int id() const { return id_; }
  bool up() const { return up_; }
  const Image& image() const { return disk_.image(); }
  Disk& disk() { return disk_; }
  std::vector<std::unique_ptr<Link>>& links() { return links_; }
  std::vector<std::unique_ptr<Feed>>& feeds() { return feeds_; }
  std::shared_ptr<Source> source_of(int slot) const;

  // ---- life
  void start();
  void stop();  // kill -9

  // ---- clients
  bool writable(int slot) const;  // as the gate says
  void commit(std::vector<Op> ops);

  // ---- verbs; false: refused
  bool slots_slave_of(int master, const SlotSet& slots);  // FORCE
  bool slots_no_one(const SlotSet& slots);
  bool slave_of(int master);
  bool slave_of_no_one(bool force);
  std::optional<Pos> fence(const SlotSet& slots, uint64_t epoch, int64_t lease);
  bool fence_permanently(const SlotSet& slots, uint64_t epoch);
  bool unfence(const SlotSet& slots, uint64_t epoch);
  std::optional<Pos> promote(const SlotSet& slots, uint64_t epoch, const Pos& from);
  bool follow(const SlotSet& slots, uint64_t epoch, int master, const Pos& from);
  bool has_applied(int slot, const Pos& want) const;
  std::optional<Pos> applied(int slot) const;

  // ---- tasks the schedule may run
  void match_links();
  bool links_stale() const { return match_; }
  void connected(Link& link);
  void said(Link& link, std::string_view bytes);
  void closed(Link& link);
  void go_down(Link& link);
  void retry(Link& link) { connect(link); }
  void run_store(Link& link);    // the thread that stores
  void tell_stored(Link& link);  // its news reach the link
  void disk_synced(Link& link);  // the fsync itself
  void tell_synced(Link& link);  // its news reach the link
  void tick(Link& link);
  Link* link_on(int conn);

  void asked(int conn, std::string_view bytes);  // the first message of a connection
  void said(Feed& feed, std::string_view bytes);
  void closed(Feed& feed);
  void wake(Feed& feed);
  void read(Feed& feed);
  void give(Feed& feed);
  void go_on_exporting(Feed& feed);
  void want_ack(Feed& feed);  // a client says WAITAOF
  void tick(Feed& feed);
  void set_room(Feed& feed, bool room);
  Feed* feed_on(int conn);
  void drop_ended_feeds();

  void fail_writes(int count) { write_errors_ = count; }  // of the replica side
  void purge(uint64_t first, bool forced);                // forced: whatever is claimed
  // The oldest position a power loss would leave, of slots that have one; UINT64_MAX: none has.
  // told: without those just stored, of which the session does not know yet.
  uint64_t safe_position(const Source& source, bool told) const;
  // Every position claimed here is the truth, in memory and in what a crash would leave.
  void check() const;

 private:
  // verbs
  bool leased(int slot) const;
  bool check_own(int slot, uint64_t epoch) const;
  bool check_epoch(const SlotSet& slots, uint64_t epoch) const;
  bool untouched(int slot) const;
  bool storing(int slot) const;
  std::shared_ptr<Source> source_for(int master);
  void leave(const SlotSet& slots, Image& image) const;  // the records
  void leave(const SlotSet& slots);                      // the memory
  // apart: without a parent, for a state that is none of the log's.
  void begin_history(const Disk::Batch& with, bool apart = false);
  void load_sources();
  void find_untouched();
  Pos normalized_end() const;
  // the log
  void append(bool reload, const SlotSet& slots, std::vector<Op> ops, const Disk::Batch& with,
              std::optional<uint64_t> as_seq);
  void publish();
  bool write_fails();
  // links
  void connect(Link& link);
  void end_stream(Link& link);
  void step(Link& link, const follow::Event& event);
  void run(Link& link, std::vector<follow::Action> actions);
  void carry_out(Link& link, follow::Action& action);
  void answer(Link& link, const follow::Event& event);
  void failed(Link& link, const follow::Fail& fail);
  void tell_dropped(Link& link);
  void send(Link& link, std::string bytes);
  bool accepted(Source& source, const wire::Hello& hello);
  bool took(Source& source, const follow::Took& took);
  bool apply_slots(Source& source, const follow::Apply& apply);
  bool apply_mirror(Source& source, const follow::Apply& apply);
  void store_slot(Link& link, const follow::StoreSlot& action);
  void run_now(Link& link, Link::Store& store);
  void tear_store(Link& link);
  void mark_torn(int slot);
  Disk::Batch store_batch(Source& source, const follow::StoreSlot& action) const;
  bool begin_stream(Source& source, uint64_t seq);
  bool begin_mirror(Source& source, uint64_t seq);
  bool apply(Source& source, const follow::Apply& apply);
  bool adopt(Source& source, const History& history);
  bool save_position(Source& source);
  void sync_disk(Link& link);
  void check_sent(Link& link, std::string_view bytes);
  void check_ack(Link& link, const wire::Ack& ack);
  // feeds
  void step(Feed& feed, const feed::Event& event);
  void carry_out(Feed& feed, const feed::Action& action);
  void begin_export(Feed& feed);
  void end(Feed& feed, const Status& why);
  std::vector<History> histories_since(Feed& feed) const;
  void note_claim(Feed& feed, uint64_t from);

  Context& context_;
  const int id_;
  Disk disk_;
  bool up_ = false;
  uint64_t life_ = 0;
  uint64_t generation_ = 1;
  uint64_t start_seq_ = 0;
  SlotSet untouched_at_start_;
  std::array<uint64_t, kSlots> slot_seq_{};
  std::array<Lease, kSlots> leases_;
  std::map<int, std::shared_ptr<Source>> sources_;
  bool match_ = false;
  int write_errors_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Feed>> feeds_;
};

}  // namespace sf::sim
