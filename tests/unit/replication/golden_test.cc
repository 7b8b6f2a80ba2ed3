// Scripts of both sessions, tests/golden/replication: events in, actions out, as text (its README).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "common/base/coding.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "common/resp/request_parser.h"
#include "replication/feed_session.h"
#include "replication/follow_session.h"

namespace sf {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& line) {
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(word == "\"\"" ? "" : word);
  return words;
}

std::string rest_of(const Words& words, size_t from) {
  std::string out;
  for (size_t i = from; i < words.size(); ++i) out += (i > from ? " " : "") + words[i];
  return out;
}

// h1 stands for forty ones.
std::string long_names(std::string text) {
  for (char digit = '1'; digit <= '9'; ++digit) {
    const std::string name{'h', digit};
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += 40) {
      text.replace(at, 2, std::string(40, digit));
    }
  }
  return text;
}

std::string short_names(std::string text) {
  for (char digit = '1'; digit <= '9'; ++digit) {
    const std::string name(40, digit);
    for (size_t at = 0; (at = text.find(name)) != std::string::npos;) {
      text.replace(at, 40, std::string{'h', digit});
    }
  }
  return text;
}

uint64_t number(const std::string& text) {
  auto value = parse_uint64(text);
  REQUIRE_MESSAGE(value, text);
  return *value;
}

SlotSet slots_of(const std::string& text) {
  auto slots = SlotSet::parse(text);
  REQUIRE_MESSAGE(slots, text);
  return *slots;
}

// ---- records: 6:put:1:a=x  6:del:1:a  6:wipe:1-3  7:reload:1-2

struct Entry {
  uint64_t seq = 0;
  std::string kind;
  SlotSet slots;
  std::string key;
  std::string value;
};

std::string prefix_of(int slot) {
  std::string key(1, '\0');
  put_big16(key, static_cast<uint16_t>(slot));
  return key;
}

Entry entry_of(const std::string& word) {
  auto parts = split(word, ':');
  REQUIRE_MESSAGE(parts.size() >= 3, word);
  Entry entry{number(std::string(parts[0])), std::string(parts[1]), slots_of(std::string(parts[2])),
              "", ""};
  if (entry.kind == "wipe") {
    entry.key = prefix_of(entry.slots.first());
    entry.value = prefix_of(entry.slots.to_vector().back() + 1);
  } else if (parts.size() > 3) {
    const size_t equals = parts[3].find('=');
    entry.key = prefix_of(entry.slots.first()) + std::string(parts[3].substr(0, equals));
    if (equals != std::string_view::npos) entry.value = parts[3].substr(equals + 1);
  }
  return entry;
}

wire::Record record_of(const Entry& entry) {
  wire::Record record{entry.seq, 0, {}};
  const uint8_t kind = entry.kind == "put" ? 1 : entry.kind == "del" ? 2 : 3;
  if (entry.kind != "reload") record.ops.push_back({kind, 0, entry.key, entry.value});
  return record;
}

std::string text_of(const std::vector<wire::Record>& records) {
  std::string out;
  for (const wire::Record& record : records) {
    if (record.ops.empty()) out += cat(" ", record.seq, ":nothing");
    for (const wire::StreamOp& op : record.ops) {
      const int slot = wire::slot_of_key(op.key);
      if (op.kind == 3) {
        const int end = wire::slot_of_key(op.value);
        out += cat(" ", record.seq, ":wipe:", SlotSet::range(slot, end - 1).text());
      } else {
        out += cat(" ", record.seq, op.kind == 1 ? ":put:" : ":del:", slot, ":",
                   std::string(op.key.substr(3)));
        if (op.kind == 1) out += cat("=", std::string(op.value));
      }
    }
  }
  return out.empty() ? " -" : out;
}

// ---- messages

std::string bytes_of(const Words& words) {
  std::string out;
  if (words[0] == "frame") {
    std::string records;
    std::vector<Entry> entries;
    for (size_t i = 5; i < words.size(); ++i) entries.push_back(entry_of(words[i]));
    for (const Entry& entry : entries) wire::encode_record(records, record_of(entry));
    wire::encode(out, wire::FromMaster(wire::Frame{number(words[1]), number(words[2]),
                                                   static_cast<int64_t>(number(words[3])),
                                                   number(words[4]), records}));
    return out;
  }
  if (words[0] == "chunk") {
    wire::encode_chunk(out, static_cast<int>(number(words[1])), 0, number(words[2]), words[3]);
    return out;
  }
  resp::array(out, words.size());
  for (std::string word : words) {
    if (words[0] == "hello") std::replace(word.begin(), word.end(), ';', ' ');
    resp::bulk(out, long_names(word));
  }
  return out;
}

std::string text_of_message(const std::string& bytes) {
  RequestParser parser;
  Request request;
  REQUIRE(parser.parse(bytes, &request) == RequestParser::Outcome::kRequest);
  if (request.argv[0] == "frame") {
    auto message = wire::decode_master(request.argv);
    REQUIRE(message);
    const auto& frame = std::get<wire::Frame>(*message);
    auto records = wire::decode_records(frame.records);
    REQUIRE(records);
    return cat("frame ", frame.from, " ", frame.to, " ", frame.time_ms, " ", frame.version,
               text_of(*records));
  }
  if (request.argv[0] == "chunk") {
    return cat("chunk ", request.argv[1], " ", request.argv[3], " ", request.argv[5]);
  }
  std::string out;
  for (std::string_view word : request.argv) {
    std::string text = word.empty() ? "\"\"" : std::string(word);
    if (request.argv[0] == "hello") std::replace(text.begin(), text.end(), ' ', ';');
    out += (out.empty() ? "" : " ") + text;
  }
  return short_names(out);
}

std::string slots_text(const SlotSet& slots) {
  return slots.empty() ? "-" : slots.text();
}

// ---- the two sides

class Side {
 public:
  virtual ~Side() = default;
  virtual void event(const Words& words) = 0;
  std::vector<std::string> out;  // actions of the last event
  std::string state;

 protected:
  int64_t now_ = 0;
};

class MasterSide : public Side {
 public:
  void event(const Words& words) override {
    const std::string& word = words[0];
    if (word == "log") return set_log(words);
    if (word == "REPLICATION" || word == "want") return ask(words);
    if (word == "at") {
      now_ = static_cast<int64_t>(number(words[1])) * 1000;
      return step(feed::Tick{now_ / 1000, last_});
    }
    if (word == "moved") return step(feed::LogMoved{});
    if (word == "read") return read(words);
    if (word == "purged") return step(feed::LogPurged{number(words[1])});
    if (word == "cut") return step(feed::LogCut{words[1], rest_of(words, 2)});
    if (word == "piece") {
      return step(feed::ExportChunk{static_cast<int>(number(words[1])), 0, 1, words[2]});
    }
    if (word == "exported") {
      const Position at{long_names(words[2]), number(words[3])};
      return step(feed::ExportDone{static_cast<int>(number(words[1])), at, 1, {}});
    }
    if (word == "export-failed") return step(feed::ExportFailed{Status::io(rest_of(words, 1))});
    if (word == "room") return step(feed::Room{words[1] == "yes"});
    if (word == "ack-wanted") return step(feed::AckWanted{number(words[1])});
    step(feed::Said{message(words)});
  }

 private:
  static wire::FromReplica message(const Words& words) {
    RequestParser parser;
    Request request;
    const std::string bytes = bytes_of(words);
    REQUIRE(parser.parse(bytes, &request) == RequestParser::Outcome::kRequest);
    auto message = wire::decode_replica(request.argv);
    REQUIRE_MESSAGE(message, rest_of(words, 0));
    return std::move(*message);
  }

  void set_log(const Words& words) {
    not_ready_.clear();
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t equals = words[i].find('=');
      const std::string key = words[i].substr(0, equals);
      const std::string value = equals == std::string::npos ? "" : words[i].substr(equals + 1);
      if (key == "last") last_ = number(value);
      if (key == "oldest") oldest_ = number(value);
      if (key == "floor") floor_ = number(value);
      if (key == "mirror") mirror_ = true;
      if (key == "not-ready") not_ready_ = value;
      if (key != "chain") continue;
      chain_ = value;
    }
  }

  void ask(const Words& words) {
    auto asked = message(words);
    if (auto* want = std::get_if<wire::Want>(&asked)) {
      return step(feed::Wanted{std::move(*want), last_, oldest_, floor_, mirror_, {}});
    }
    feed::Asked event;
    event.sync = std::get<wire::Sync>(std::move(asked));
    std::string chain = chain_;
    std::replace(chain.begin(), chain.end(), ';', ' ');
    auto decoded = HistoryChain::decode(long_names(chain));
    REQUIRE(decoded);
    event.chain = std::move(*decoded);
    event.last_seq = last_;
    event.oldest_seq = oldest_;
    event.floor = floor_;
    event.mirror = mirror_;
    event.not_ready = not_ready_;
    event.run_id = "master";
    step(event);
  }

  // read <after> [h2:h1:7] entries...
  void read(const Words& words) {
    feed::LogRead event;
    event.after = number(words[1]);
    event.version = 1;
    std::vector<Entry> entries;
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i][0] == 'h') {
        auto history = decode_history(long_names(words[i]));
        REQUIRE(history);
        event.histories.push_back(std::move(*history));
      } else {
        entries.push_back(entry_of(words[i]));
      }
    }
    for (const Entry& entry : entries) {
      event.entries.push_back({record_of(entry), entry.kind == "reload", entry.slots});
    }
    step(event);
  }

  void step(const feed::Event& event) {
    for (const feed::Action& action : session_.step(event, now_)) {
      if (const auto* send = std::get_if<feed::Send>(&action)) {
        out.push_back("send " + text_of_message(send->bytes));
      } else if (const auto* log = std::get_if<feed::ReadLog>(&action)) {
        out.push_back(cat("read-log after ", log->after));
      } else if (const auto* slot = std::get_if<feed::Export>(&action)) {
        out.push_back(cat("export ", slot->slot));
      } else if (const auto* keep = std::get_if<feed::KeepLog>(&action)) {
        out.push_back(cat("keep-log from ", keep->from));
      } else {
        out.push_back("close: " + short_names(std::get<feed::Close>(action).why.text()));
      }
    }
    static constexpr const char* kStates[] = {"waiting", "open", "streaming", "closed"};
    state = kStates[static_cast<int>(session_.state())];
  }

  uint64_t last_ = 0;
  uint64_t oldest_ = 1;
  uint64_t floor_ = 0;
  bool mirror_ = false;
  std::string not_ready_;
  std::string chain_;
  FeedSession session_{FeedLimits{}, 0};
};

class ReplicaSide : public Side {
 public:
  explicit ReplicaSide(bool full, std::string password) {
    FollowConfig config{"replica", 9001, full, std::move(password), {}};
    session_ = std::make_unique<FollowSession>(std::move(config), positions_, 0);
  }

  void event(const Words& words) override {
    const std::string& word = words[0];
    if (word == "follows") return follows(words);
    if (word == "at") {
      now_ = static_cast<int64_t>(number(words[1])) * 1000;
      return step(follow::Tick{});
    }
    if (word == "connected") return step(follow::Connected{});
    if (word == "line") return step(follow::Line{rest_of(words, 1)});
    if (word == "applied") return step(follow::Applied{number(words[1])});
    if (word == "stored") return step(follow::Stored{static_cast<int>(number(words[1]))});
    if (word == "synced") return step(follow::Synced{number(words[1])});
    if (word == "failed") return step(follow::Failed{Status::io(rest_of(words, 1))});
    if (word == "changed") return step(follow::Changed{});
    if (word == "dropped") {
      positions_.drop(slots_of(words[1]));
      return step(follow::Dropped{slots_of(words[1])});
    }
    const std::string bytes = bytes_of(words);
    size_t used = 0;
    auto event = session_->read(bytes, &used);
    REQUIRE_MESSAGE((event && used == bytes.size()), rest_of(words, 0));
    step(*event);
  }

 private:
  // follows <slots> - | <history> <seq>
  void follows(const Words& words) {
    std::optional<Position> at;
    if (words[2] != "-") at = Position{long_names(words[2]), number(words[3])};
    slots_of(words[1]).for_each([&](int slot) { positions_.follow(slot, at); });
  }

  static std::string text(const follow::Apply& apply) {
    std::string out = cat("apply ", apply.from, " to ", apply.to, text_of(apply.records));
    if (!apply.joined.empty()) out += " joined " + apply.joined.text();
    if (!apply.moved.empty()) out += " moved " + apply.moved.text();
    if (!apply.lost.empty()) out += " lost " + apply.lost.text();
    return out;
  }

  void step(const follow::Event& event) {
    for (const follow::Action& action : session_->step(event, now_)) out.push_back(text(action));
    static constexpr const char* kStates[] = {"connecting", "auth",      "hello", "copying",
                                              "streaming",  "reloading", "ended"};
    state = kStates[static_cast<int>(session_->state())];
  }

  static std::string text(const follow::Action& action) {
    if (const auto* send = std::get_if<follow::Send>(&action)) {
      return "send " + text_of_message(send->bytes);
    }
    if (const auto* accepted = std::get_if<follow::Accepted>(&action)) {
      std::string why = accepted->why_copy.empty() ? "" : ": " + accepted->why_copy;
      return short_names(cat("accepted keep ", slots_text(accepted->hello.keep), " copy ",
                             slots_text(accepted->hello.copy), why));
    }
    if (const auto* took = std::get_if<follow::Took>(&action)) {
      std::string why = took->why_copy.empty() ? "" : ": " + took->why_copy;
      return short_names(
          cat("took keep ", slots_text(took->keep), " copy ", slots_text(took->copy), why));
    }
    if (const auto* chunk = std::get_if<follow::StoreChunk>(&action)) {
      return cat("store-chunk ", chunk->chunk.slot, " ", chunk->chunk.bytes);
    }
    if (const auto* slot = std::get_if<follow::StoreSlot>(&action)) {
      std::string passed = slot->reload_seq ? cat(" passing ", *slot->reload_seq) : "";
      return short_names(cat("store-slot ", slot->done.slot, " at ", slot->done.at.text(), passed));
    }
    if (const auto* begin = std::get_if<follow::BeginStream>(&action)) {
      return cat("begin-stream ", begin->seq);
    }
    if (const auto* apply = std::get_if<follow::Apply>(&action)) return text(*apply);
    if (const auto* adopt = std::get_if<follow::AdoptHistory>(&action)) {
      return "adopt " + short_names(encode_history(adopt->history));
    }
    if (const auto* time = std::get_if<follow::MasterTime>(&action)) {
      return cat("master-time ", time->time_ms);
    }
    if (std::holds_alternative<follow::SyncNow>(action)) return "sync-now";
    const auto& fail = std::get<follow::Fail>(action);
    static constexpr const char* kKinds[] = {"retry", "final", "copy-again"};
    return short_names(cat("fail ", kKinds[static_cast<int>(fail.kind)], ": ", fail.why.text()));
  }

  SlotPositions positions_;
  std::unique_ptr<FollowSession> session_;
};

std::unique_ptr<Side> side_of(const Words& words) {
  if (words[1] == "master") return std::make_unique<MasterSide>();
  const bool full = std::find(words.begin(), words.end(), "full") != words.end();
  const bool password = std::find(words.begin(), words.end(), "password") != words.end();
  return std::make_unique<ReplicaSide>(full, password ? "secret" : "");
}

// The script with its answers made anew.
std::string replay(std::istream& in) {
  std::unique_ptr<Side> side;
  std::string text;
  std::string state;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) continue;
    text += line + "\n";
    if (line.starts_with("side ")) {
      side = side_of(words_of(line));
      state.clear();
    }
    if (!line.starts_with("> ")) continue;
    REQUIRE(side);
    side->out.clear();
    side->event(words_of(line.substr(2)));
    for (const std::string& action : side->out) text += "  " + action + "\n";
    if (side->state != state) text += "  = " + side->state + "\n";
    state = side->state;
  }
  return text;
}

TEST_CASE("sessions: golden scripts") {
  const std::filesystem::path folder = std::string(SF_SOURCE_DIR) + "/tests/golden/replication";
  int scripts = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".txt") continue;
    ++scripts;
    CAPTURE(file.path().filename().string());
    std::ifstream in(file.path());
    std::stringstream stored;
    stored << in.rdbuf();
    std::istringstream script(stored.str());
    const std::string made = replay(script);
    if (std::getenv("SF_GOLDEN_UPDATE") != nullptr) {
      std::ofstream(file.path()) << made;
    } else {
      CHECK(made == stored.str());
    }
  }
  CHECK(scripts >= 12);
}

}  // namespace
}  // namespace sf
