#include "replication/wire.h"

#include <xxhash.h>

#include <cstdio>
#include <type_traits>

#include "common/base/coding.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf::wire {
namespace {

using Args = std::span<const std::string_view>;

std::string hex64(uint64_t v) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(v));
  return text;
}

// One message: a word, then its fields in order.
class Writer {
 public:
  Writer(std::string& out, size_t fields, std::string_view word) : out_(out) {
    resp::array(out_, fields + 1);
    text(word);
  }
  Writer& text(std::string_view value) {
    resp::bulk(out_, value);
    return *this;
  }
  template <class T>
  Writer& number(T value) {
    return text(std::to_string(value));
  }
  Writer& slots(const SlotSet& value) { return text(value.empty() ? "-" : value.text()); }
  Writer& history(const std::string& id) { return text(id.empty() ? "-" : id); }

 private:
  std::string& out_;
};

// Reads fields in order; remembers the first failure.
class Reader {
 public:
  explicit Reader(Args args) : args_(args) {}

  std::string_view text() {
    if (at_ >= args_.size()) return fail();
    return args_[at_++];
  }
  uint64_t number() {
    auto value = parse_uint64(text());
    if (!value) fail();
    return value.value_or(0);
  }
  int slot() {
    uint64_t value = number();
    if (value >= static_cast<uint64_t>(kSlotCount)) fail();
    return static_cast<int>(value % kSlotCount);
  }
  SlotSet slots() {
    std::string_view value = text();
    if (value == "-") return {};
    auto set = SlotSet::parse(value);
    if (!set) fail();
    return set ? *set : SlotSet();
  }
  std::string history() {
    std::string_view value = text();
    if (value == "-") return {};
    if (!is_history_id(value)) fail();
    return std::string(value);
  }
  uint64_t hex() {
    std::string_view value = text();
    uint64_t v = 0;
    if (value.size() != 16) fail();
    for (char c : value) {
      int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      if (digit < 0) fail();
      v = v << 4 | static_cast<uint64_t>(digit & 15);
    }
    return v;
  }
  std::string_view fail() {
    ok_ = false;
    return {};
  }
  bool more() const { return ok_ && at_ < args_.size(); }
  bool done() const { return ok_ && at_ == args_.size(); }

 private:
  Args args_;
  size_t at_ = 1;
  bool ok_ = true;
};

Status bad(Args argv) {
  return Status::corrupt(
      cat("unreadable replication message \"", printable(argv.empty() ? "" : argv[0]), "\""));
}

template <class Variant>
Result<Variant> finish(const Reader& reader, Variant message, Args argv) {
  if (!reader.done()) return bad(argv);
  return message;
}

void put_groups(Writer& w, const std::vector<SlotGroup>& groups) {
  for (const SlotGroup& group : groups) {
    w.slots(group.slots);
    w.history(group.position ? group.position->history : "");
    w.number(group.position ? group.position->seq : 0);
  }
}

void put(std::string& out, const Sync& m) {
  Writer w(out, 5 + 3 * m.groups.size(), "REPLICATION");
  w.text("SYNC").number(m.protocol).text(m.run_id).number(m.port).text(m.full ? "full" : "slots");
  put_groups(w, m.groups);
}
void put(std::string& out, const Want& m) {
  Writer w(out, 3 * m.groups.size(), "want");
  put_groups(w, m.groups);
}
void put(std::string& out, const Placed& m) {
  Writer(out, 1, "placed").slots(m.slots);
}
void put(std::string& out, const Fetch& m) {
  Writer(out, 1, "fetch").number(m.slot);
}
void put(std::string& out, const StreamFrom& m) {
  Writer(out, 2, "stream").history(m.at.history).number(m.at.seq);
}
void put(std::string& out, const Ack& m) {
  Writer(out, 2, "ack").number(m.applied).number(m.synced);
}
void put(std::string& out, const Drop& m) {
  Writer(out, 1, "drop").slots(m.slots);
}

void put(std::string& out, const Hello& m) {
  Writer w(out, 8, "hello");
  w.number(m.protocol).text(m.run_id).number(m.seq).number(m.time_ms).text(m.chain.encode());
  w.slots(m.keep).slots(m.copy).text(m.records);
}
void put(std::string& out, const Refuse& m) {
  Writer(out, 2, "refuse").text(m.retry ? "retry" : "final").text(m.text);
}
void put(std::string& out, const Chunk& m) {
  encode_chunk(out, m.slot, m.family, m.entries, m.bytes);
}
void put(std::string& out, const CopyDone& m) {
  Writer w(out, 7, "copydone");
  w.number(m.slot).history(m.at.history).number(m.at.seq).number(m.version);
  w.number(m.chunks).number(m.bytes).number(m.entries);
}
void put(std::string& out, const Frame& m) {
  Writer w(out, 5, "frame");
  w.number(m.from).number(m.to).number(m.time_ms).number(m.version).text(m.records);
}
void put(std::string& out, const Reload& m) {
  Writer w(out, 4, "reload");
  w.number(m.from).number(m.seq).number(m.time_ms).slots(m.slots);
}
void put(std::string& out, const NewHistory& m) {
  Writer(out, 1, "history").text(encode_history(m.history));
}
void put(std::string& out, const Ping& m) {
  Writer(out, 2, "ping").number(m.time_ms).number(m.sent);
}
void put(std::string& out, const Lost& m) {
  Writer(out, 1, "lost").text(m.text);
}
void put(std::string& out, const Took& m) {
  Writer(out, 2, "took").slots(m.keep).slots(m.copy);
}
void put(std::string& out, const GetAck&) {
  Writer(out, 0, "getack");
}

// False: not readable, a slot twice, or none at all.
bool read_groups(Reader& r, std::vector<SlotGroup>* groups) {
  SlotSet seen;
  while (r.more()) {
    SlotGroup group;
    group.slots = r.slots();
    Position at{r.history(), 0};
    at.seq = r.number();
    if (!at.history.empty()) group.position = at;
    if (group.slots.empty() || seen.intersects(group.slots)) return false;
    seen.add(group.slots);
    groups->push_back(std::move(group));
  }
  return !groups->empty();
}

Result<FromReplica> read_sync(Args argv) {
  Reader r(argv);
  Sync m;
  r.text();  // SYNC
  m.protocol = static_cast<int>(r.number());
  m.run_id = r.text();
  m.port = static_cast<int>(r.number());
  std::string_view mode = r.text();
  m.full = mode == "full";
  if (mode != "full" && mode != "slots") return bad(argv);
  if (!read_groups(r, &m.groups) || m.port > 65535) return bad(argv);
  return finish<FromReplica>(r, std::move(m), argv);
}

Result<FromMaster> read_hello(Args argv) {
  Reader r(argv);
  Hello m;
  m.protocol = static_cast<int>(r.number());
  m.run_id = r.text();
  m.seq = r.number();
  m.time_ms = static_cast<int64_t>(r.number());
  auto chain = HistoryChain::decode(r.text());
  if (!chain) return chain.status();
  m.chain = std::move(*chain);
  m.keep = r.slots();
  m.copy = r.slots();
  m.records = r.text();
  return finish<FromMaster>(r, std::move(m), argv);
}

Result<FromMaster> read_chunk(Args argv) {
  Reader r(argv);
  Chunk m;
  m.slot = r.slot();
  m.family = static_cast<uint8_t>(r.number());
  m.entries = r.number();
  m.checksum = r.hex();
  m.bytes = r.text();
  if (r.done() && XXH64(m.bytes.data(), m.bytes.size(), 0) != m.checksum) {
    return Status::corrupt(cat("a piece of slot ", m.slot, " arrived damaged (checksum)"));
  }
  return finish<FromMaster>(r, m, argv);
}

Result<FromMaster> read_copy_done(Args argv) {
  Reader r(argv);
  CopyDone m;
  m.slot = r.slot();
  m.at.history = r.history();
  m.at.seq = r.number();
  m.version = r.number();
  m.chunks = r.number();
  m.bytes = r.number();
  m.entries = r.number();
  return finish<FromMaster>(r, std::move(m), argv);
}

Result<FromMaster> read_frame(Args argv) {
  Reader r(argv);
  Frame m;
  m.from = r.number();
  m.to = r.number();
  m.time_ms = static_cast<int64_t>(r.number());
  m.version = r.number();
  m.records = r.text();
  if (m.to < m.from) return bad(argv);
  return finish<FromMaster>(r, m, argv);
}

Result<FromMaster> read_reload(Args argv) {
  Reader r(argv);
  Reload m;
  m.from = r.number();
  m.seq = r.number();
  m.time_ms = static_cast<int64_t>(r.number());
  m.slots = r.slots();
  if (m.seq != m.from + 1 || m.slots.empty()) return bad(argv);
  return finish<FromMaster>(r, std::move(m), argv);
}

Result<FromMaster> read_history(Args argv) {
  Reader r(argv);
  auto history = decode_history(r.text());
  if (!history) return history.status();
  return finish<FromMaster>(r, NewHistory{std::move(*history)}, argv);
}

}  // namespace

void encode(std::string& out, const FromReplica& message) {
  std::visit([&](const auto& m) { put(out, m); }, message);
}

void encode(std::string& out, const FromMaster& message) {
  std::visit([&](const auto& m) { put(out, m); }, message);
}

void encode_chunk(std::string& out, int slot, uint8_t family, uint64_t entries,
                  std::string_view bytes) {
  Writer w(out, 5, "chunk");
  w.number(slot).number(static_cast<int>(family)).number(entries);
  w.text(hex64(XXH64(bytes.data(), bytes.size(), 0))).text(bytes);
}

Result<FromReplica> decode_replica(Args argv) {
  if (argv.empty()) return bad(argv);
  std::string_view word = argv[0];
  Reader r(argv);
  if (equals_ignore_case(word, "REPLICATION") && argv.size() > 1 &&
      equals_ignore_case(argv[1], "SYNC")) {
    return read_sync(argv);
  }
  if (word == "fetch") return finish<FromReplica>(r, Fetch{r.slot()}, argv);
  if (word == "ack") {
    Ack m;
    m.applied = r.number();
    m.synced = r.number();
    return finish<FromReplica>(r, m, argv);
  }
  if (word == "stream") {
    StreamFrom m;
    m.at.history = r.history();
    m.at.seq = r.number();
    return finish<FromReplica>(r, m, argv);
  }
  if (word == "drop") {
    Drop m{r.slots()};
    return finish<FromReplica>(r, std::move(m), argv);
  }
  if (word == "placed") {
    Placed m{r.slots()};
    return finish<FromReplica>(r, std::move(m), argv);
  }
  if (word == "want") {
    Want m;
    if (!read_groups(r, &m.groups)) return bad(argv);
    return finish<FromReplica>(r, std::move(m), argv);
  }
  return bad(argv);
}

Result<FromMaster> decode_master(Args argv) {
  if (argv.empty()) return bad(argv);
  std::string_view word = argv[0];
  Reader r(argv);
  if (word == "frame") return read_frame(argv);
  if (word == "chunk") return read_chunk(argv);
  if (word == "copydone") return read_copy_done(argv);
  if (word == "hello") return read_hello(argv);
  if (word == "reload") return read_reload(argv);
  if (word == "history") return read_history(argv);
  if (word == "ping") {
    Ping m;
    m.time_ms = static_cast<int64_t>(r.number());
    m.sent = r.number();
    return finish<FromMaster>(r, m, argv);
  }
  if (word == "lost") {
    Lost m{std::string(r.text())};
    return finish<FromMaster>(r, std::move(m), argv);
  }
  if (word == "took") {
    Took m;
    m.keep = r.slots();
    m.copy = r.slots();
    return finish<FromMaster>(r, std::move(m), argv);
  }
  if (word == "getack") return finish<FromMaster>(r, GetAck{}, argv);
  if (word == "refuse") {
    Refuse m;
    m.retry = r.text() == "retry";
    m.text = r.text();
    return finish<FromMaster>(r, std::move(m), argv);
  }
  return bad(argv);
}

void encode_record(std::string& out, const Record& record) {
  put_varint(out, record.seq);
  put_varint(out, static_cast<uint64_t>(record.time_ms));
  put_varint(out, record.ops.size());
  for (const StreamOp& op : record.ops) {
    out.push_back(static_cast<char>(op.kind));
    out.push_back(static_cast<char>(op.family));
    put_bytes(out, op.key);
    put_bytes(out, op.value);
  }
}

Result<std::vector<Record>> decode_records(std::string_view in) {
  std::vector<Record> records;
  uint64_t last = 0;
  while (!in.empty()) {
    Record record;
    uint64_t time = 0;
    uint64_t count = 0;
    bool ok = take_varint(in, &record.seq) && take_varint(in, &time) && take_varint(in, &count) &&
              record.seq > last && count <= in.size();
    record.time_ms = static_cast<int64_t>(time);
    for (uint64_t i = 0; ok && i < count; ++i) {
      StreamOp op;
      ok = take_byte(in, &op.kind) && take_byte(in, &op.family) && take_bytes(in, &op.key) &&
           take_bytes(in, &op.value) && op.kind >= 1 && op.kind <= 3 && op.family <= kRecordFamily;
      if (ok) record.ops.push_back(op);
    }
    if (!ok) return Status::corrupt("unreadable records in a replication frame");
    last = record.seq;
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace sf::wire
