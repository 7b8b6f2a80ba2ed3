#include "storage_node/replica/slot_status.h"

#include <algorithm>

#include "common/resp/encoder.h"
#include "storage_node/replica/log_report.h"

namespace sf {
namespace {

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

// Pika's binlog position is a file number and an offset in it; ours is one number. Codis compares
// the pair.
std::string binlog_offset(uint64_t seq) {
  constexpr uint64_t kFileSize = 1ULL << 30;
  return cat(seq / kFileSize, " ", seq % kFileSize);
}

std::string fence_of(const ReplicaState& state, int slot) {
  if (state.records[at(slot)].fenced) {
    return state.settling.contains(slot) ? "leased" : "permanent";
  }
  return state.lease_alive(slot) ? "leased" : "no";
}

// After a start slot_seq is only known to be at most the log's end; a mark says it exactly.
uint64_t own_slot_seq(const ReplicaState& state, int slot) {
  uint64_t seq = state.engine.slot_seq(slot);
  const SlotRecord& record = state.records[at(slot)];
  bool exact = record.mark && seq <= state.start_seq && state.untouched_at_start.contains(slot);
  return exact ? std::min(seq, *record.mark) : seq;
}

SlotStatus status_of(const ReplicaState& state, int slot) {
  SlotStatus out;
  out.slot = slot;
  out.fence = fence_of(state, slot);
  auto source = state.source_of(slot);
  if (!source) {
    out.at = {state.histories.current(), own_slot_seq(state, slot)};
    return out;
  }
  out.master = false;
  out.from = source->master.text();
  auto position = source->positions.position(slot);
  out.at = position.value_or(Position{});
  out.link = link_name(source->link);
  // The link as a whole may be copying others, or be up while this one is copied.
  if (source->positions.streaming() && source->link != Source::Link::kDown) {
    out.link = position ? "up" : "copying";
  }
  uint64_t newest = source->master_seq;
  out.lag = -1;
  if (position && newest != 0) {
    out.lag = newest > position->seq ? static_cast<int64_t>(newest - position->seq) : 0;
  }
  return out;
}

const char* slave_state(const Source& source, const SlotStatus& status) {
  if (status.link == "up") return "kConnected";
  switch (source.link) {
    case Source::Link::kUp:
    case Source::Link::kCopying:
      return "kWaitDBSync";
    default:
      return source.error.empty() ? "kTryConnect" : "kError";
  }
}

uint64_t lag_of(const ReplicaState& state, const FeedReport& feed) {
  uint64_t last = state.engine.last_seq();
  return last > feed.acked ? last - feed.acked : 0;
}

struct CopyNumbers {
  uint64_t rate = 0;   // bytes a second
  int64_t eta_s = -1;  // -1: unknown, or no copy
};

CopyNumbers copy_numbers(const Source& source, int64_t now_us) {
  const CopyProgress& copy = source.copy;
  CopyNumbers out;
  if (copy.started_us == 0) return out;
  int64_t end = copy.ended_us != 0 ? copy.ended_us : now_us;
  int64_t spent = std::max<int64_t>(1, end - copy.started_us);
  out.rate = copy.bytes * 1'000'000 / static_cast<uint64_t>(spent);
  if (copy.ended_us != 0) {
    out.eta_s = 0;
  } else if (copy.slots_done > 0) {
    out.eta_s = spent / copy.slots_done * (copy.slots_total - copy.slots_done) / 1'000'000;
  }
  return out;
}

// One line a link, of our own: everything about it.
std::string link_line(const ReplicaState& state, const Source& source, int number) {
  CopyNumbers numbers = copy_numbers(source, state.clock.mono_us());
  const SlotPositions& positions = source.positions;
  uint64_t applied =
      positions.streaming() ? positions.cursor() : positions.lowest_known().value_or(0);
  if (!positions.without_position().empty()) applied = 0;  // nothing looks caught up before it is
  // Before the master has said where it is, nobody knows: no number that could pass for "none".
  std::string lag = "-1";
  if (source.master_seq != 0 || source.link == Source::Link::kUp) {
    lag = std::to_string(source.master_seq > applied ? source.master_seq - applied : 0);
  }
  return cat("slotferry_link", number, ":master=", source.master.text(),
             ",state=", link_name(source.link), ",applied=", applied,
             ",history=", source.positions.history().empty() ? "-" : source.positions.history(),
             ",lag=", lag, ",copied_slots=", source.copy.slots_done,
             ",copy_slots=", source.copy.slots_total, ",copied_bytes=", source.copy.bytes,
             ",copied_entries=", source.copy.entries, ",copy_rate=", numbers.rate,
             ",copy_eta_s=", numbers.eta_s,
             ",slots=", source.full ? "all" : source.positions.slots().text(), "\r\n");
}

std::string error_line(const std::string& text) {
  std::string flat = text;
  std::replace(flat.begin(), flat.end(), '\r', ' ');
  std::replace(flat.begin(), flat.end(), '\n', ' ');
  return cat("master_link_error:", flat, "\r\n");
}

void append_master_side(const ReplicaState& state, const Source& source, std::string& out) {
  bool up = source.link == Source::Link::kUp;
  int64_t now = state.clock.mono_us();
  int64_t heard_s = source.heard_us == 0 ? -1 : (now - source.heard_us) / 1'000'000;
  uint64_t offset = source.mirror ? state.engine.last_seq() : 0;
  out += cat("master_host:", source.master.host, "\r\nmaster_port:", source.master.port,
             "\r\nmaster_link_status:", up ? "up" : "down",
             "\r\nmaster_last_io_seconds_ago:", heard_s, "\r\nmaster_sync_in_progress:",
             source.link == Source::Link::kCopying || !source.mirror ? 1 : 0,
             "\r\nslave_repl_offset:", offset, "\r\nslave_priority:100\r\nslave_read_only:1\r\n");
  if (up) return;
  int64_t down_us = source.link_since_us == 0 ? 0 : now - source.link_since_us;
  out += cat("master_link_down_since_seconds:", down_us / 1'000'000, "\r\n");
}

}  // namespace

std::vector<SlotStatus> slot_status(const ReplicaState& state, const SlotSet& slots) {
  const std::lock_guard lock(state.mutex);
  std::vector<SlotStatus> out;
  slots.for_each([&](int slot) { out.push_back(status_of(state, slot)); });
  return out;
}

std::string slot_info_text(const ReplicaState& state, const std::vector<FeedReport>& feeds,
                           const SlotSet& slots) {
  const std::lock_guard lock(state.mutex);
  std::string out;
  slots.for_each([&](int slot) {
    SlotStatus status = status_of(state, slot);
    out += cat("(db0:", slot, ") binlog_offset=", binlog_offset(status.at.seq),
               ",safety_purge=none\r\n  Role: ", status.master ? "Master" : "Slave", "\r\n");
    if (auto source = state.source_of(slot)) {
      out += cat("  master: ", source->master.text(),
                 "\r\n  slave status: ", slave_state(*source, status), "\r\n");
      if (source->copy.started_us != 0) {
        CopyNumbers numbers = copy_numbers(*source, state.clock.mono_us());
        out += cat("  copy: slots=", source->copy.slots_done, "/", source->copy.slots_total,
                   ",bytes=", source->copy.bytes, ",rate=", numbers.rate, ",eta_s=", numbers.eta_s,
                   "\r\n");
      }
    }
    std::string replicas;
    int count = 0;
    for (const FeedReport& feed : feeds) {
      if (!feed.slots.contains(slot)) continue;
      uint64_t slot_seq = state.engine.slot_seq(slot);
      bool there = feed.state == "online" && !feed.copying.contains(slot);
      uint64_t acked = there ? feed.acked : 0;
      replicas += cat("  slave[", count++, "]: ", feed.ip, ":", feed.port,
                      "\r\n  replication_status: ", there ? "SlaveBinlogSync" : "SlaveDbSync",
                      "\r\n  lag: ", slot_seq > acked ? slot_seq - acked : 0, "\r\n");
    }
    out += cat("  connected_slaves: ", count, "\r\n", replicas);
    out += cat("  history: ", status.at.history.empty() ? "-" : status.at.history,
               "\r\n  seq: ", status.at.seq, "\r\n  link: ", status.link,
               "\r\n  fence: ", status.fence, "\r\n\r\n");
  });
  return out;
}

std::string replication_info_text(const ReplicaState& state, const std::vector<FeedReport>& feeds) {
  const std::lock_guard lock(state.mutex);
  uint64_t seq = state.engine.last_seq();
  std::string history = state.histories.current();
  const auto snapshot = state.histories.snapshot();
  const History begun = snapshot.chain.empty() ? History{} : snapshot.chain.entries().back();
  auto source = state.full ? state.source_of(0) : nullptr;
  bool whole = !source || source->mirror;
  std::string out =
      cat("# Replication(", source ? "SLAVE" : "MASTER", ")\r\nrole:", source ? "slave" : "master",
          "\r\nReplicationID:", history, "\r\n");
  if (source) {
    append_master_side(state, *source, out);
  } else {
    out += cat("slave_repl_offset:", seq, "\r\n");  // Pika prints it on masters too
  }
  std::string replicas;
  std::string partial;
  int full_count = 0;
  int partial_count = 0;
  for (const FeedReport& feed : feeds) {
    std::string numbers = cat("state=", feed.state, ",offset=", feed.acked);
    if (feed.full) {
      replicas +=
          cat("slave", full_count++, ":ip=", feed.ip, ",port=", feed.port, ",conn_fd=", feed.id,
              ",lag=(db0:", lag_of(state, feed), "),", numbers, "\r\n");
    } else {
      partial += cat("slotferry_replica", partial_count++, ":ip=", feed.ip, ",port=", feed.port,
                     ",", numbers, ",synced=", feed.synced, ",lag=", lag_of(state, feed),
                     ",slots=", feed.slots.text(),
                     ",copying=", feed.copying.empty() ? "-" : feed.copying.text(), "\r\n");
    }
  }
  out +=
      cat("connected_slaves:", full_count, "\r\n", replicas,
          "is_eligible_for_master_election:", whole ? "true" : "false",
          "\r\nmaster_replid:", history, "\r\nmaster_repl_offset:", seq,
          "\r\nmaster_replid2:", begun.parent.empty() ? std::string(40, '0') : begun.parent,
          "\r\nsecond_repl_offset:", begun.parent.empty() ? "-1" : std::to_string(begun.fork + 1),
          "\r\nrepl_backlog_active:1\r\nrepl_backlog_size:1048576\r\n");
  std::string error;
  int links = 0;
  std::string link_lines;
  SlotSet followed;
  for (const auto& [name, one] : state.sources) {
    link_lines += link_line(state, *one, links++);
    if (!one->full) followed.add(one->positions.slots());
    if (error.empty() && !one->error.empty() && one->link != Source::Link::kUp) error = one->error;
  }
  if (!state.sources.empty()) out += error_line(error);
  out += cat(
      "slotferry_history:", history, "\r\nslotferry_seq:", seq, "\r\n", log_kept_text(state.engine),
      "slotferry_followed_slots:", followed.empty() ? "-" : followed.text(),
      "\r\nslotferry_replicas:", partial_count, "\r\nslotferry_links:", links, "\r\n", link_lines,
      partial, "db0:binlog_offset=", binlog_offset(whole ? seq : 0), ",safety_purge=none\r\n");
  return out;
}

std::string replication_role(const ReplicaState& state, const std::vector<FeedReport>& feeds) {
  const std::lock_guard lock(state.mutex);
  std::string out;
  if (auto source = state.full ? state.source_of(0) : nullptr) {
    bool copying = source->link == Source::Link::kCopying || !source->mirror;
    bool up = source->link == Source::Link::kUp;
    resp::array(out, 5);
    resp::bulk(out, "slave");
    resp::bulk(out, source->master.host);
    resp::integer(out, source->master.port);
    resp::bulk(out, up ? "connected" : copying ? "sync" : "connect");
    resp::integer(out, source->mirror ? static_cast<int64_t>(state.engine.last_seq()) : -1);
    return out;
  }
  resp::array(out, 3);
  resp::bulk(out, "master");
  resp::integer(out, static_cast<int64_t>(state.engine.last_seq()));
  auto full = std::count_if(feeds.begin(), feeds.end(), [](const FeedReport& f) { return f.full; });
  resp::array(out, static_cast<size_t>(full));
  for (const FeedReport& feed : feeds) {
    if (!feed.full) continue;
    resp::array(out, 3);
    resp::bulk(out, feed.ip);
    resp::bulk_int(out, feed.port);
    resp::bulk_int(out, static_cast<int64_t>(feed.acked));
  }
  return out;
}

}  // namespace sf
