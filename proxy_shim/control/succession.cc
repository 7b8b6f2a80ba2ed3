#include "proxy_shim/control/succession.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <map>
#include <memory>
#include <vector>

#include "common/pika/pika_status.h"
#include "proxy_shim/control/resp_client.h"

namespace sf {
namespace {

using Verdict = Succession::Verdict;
using Requests = std::vector<std::vector<std::string>>;

struct Pair {
  const PlanSide& former_side;
  RespClient former;
  RespClient successor;
  int64_t timeout_ms;
};

Succession unknown(const Pair& pair, const std::string& why) {
  return {Verdict::kUnknown,
          cat("whether ", pair.successor.address().text(), " has everything that ",
              pair.former.address().text(), " acknowledged cannot be told: ", why)};
}

Succession lacks(const Pair& pair, const std::string& what) {
  return {Verdict::kLacks, cat("the former master ", pair.former.address().text(), " has ", what,
                               " that ", pair.successor.address().text(), " has not")};
}

Succession gone(const Pair& pair, const std::string& why) {
  return {Verdict::kGone, cat("the former master ", pair.former.address().text(), " ", why,
                              ": what it had acknowledged and not passed on to ",
                              pair.successor.address().text(), " is lost, if there was anything")};
}

// One that answers with an error (another password, loading) is not dead.
Succession silent(const Pair& pair, const Status& why) {
  const bool dead = why.code() == Code::kUnavailable || why.code() == Code::kTimeout;
  return dead ? gone(pair, "does not answer") : unknown(pair, why.text());
}

// ---- node: every slot's last write, by the successor's own histories

struct NodeFormer {
  std::map<int, std::string> last;  // of slots it is the master of: "history seq"
  std::string history, parent;      // parent: where the history began, if nothing was written since
  uint64_t fork = 0;
};

Result<NodeFormer> read_node(RespClient& client, const SlotSet& slots, int64_t timeout_ms) {
  Result<std::vector<Reply>> said = client.ask_all(
      {{"REPLICATION", "POSITIONS", slots.text()}, {"INFO", "replication"}}, timeout_ms);
  if (!said) return said.status();
  NodeFormer out;
  const std::string& info = (*said)[1].text;
  out.history = info_field(info, "master_replid");
  out.parent = info_field(info, "master_replid2");
  const uint64_t second = parse_uint64(info_field(info, "second_repl_offset")).value_or(0);
  out.fork = second == 0 ? 0 : second - 1;
  for (const Reply& row : (*said)[0].elements) {
    if (row.elements.size() < 6)
      return Status::corrupt("REPLICATION POSITIONS in an unknown shape");
    if (row.elements[1].text != "master") continue;
    const uint64_t seq = static_cast<uint64_t>(row.elements[3].integer);
    // A history in which this slot was not written begins like the one before it.
    const bool before = second != 0 && seq <= out.fork && row.elements[2].text == out.history;
    out.last[static_cast<int>(row.elements[0].integer)] =
        cat(before ? out.parent : row.elements[2].text, " ", seq);
  }
  return out;
}

Succession compare_nodes(Pair& pair, const SlotSet& slots) {
  const Result<NodeFormer> former = read_node(pair.former, slots, pair.timeout_ms);
  if (!former) return silent(pair, former.status());
  if (former->last.empty()) return gone(pair, "is a replica by now");
  Requests questions;
  for (const auto& [slot, last] : former->last) {
    const size_t blank = last.find(' ');
    questions.push_back({"REPLICATION", "WAITAPPLIED", std::to_string(slot), last.substr(0, blank),
                         last.substr(blank + 1), "0"});
  }
  const Result<std::vector<Reply>> answers = pair.successor.ask_all(questions, pair.timeout_ms);
  if (!answers) return unknown(pair, answers.status().text());
  SlotSet behind;
  size_t at = 0;
  for (const auto& [slot, last] : former->last) {
    if ((*answers)[at++].integer != 1) behind.add(slot);
  }
  if (behind.empty()) return {};
  return lacks(pair, cat("writes in slots ", behind.text()));
}

// ---- Redis: the stream behind the fork is read, for most of it may be PINGs

struct RedisEnd {
  bool is_master = false;
  std::string id, id_before;
  int64_t offset = 0, offset_before = 0;
};

Result<RedisEnd> read_redis(RespClient& client, int64_t timeout_ms) {
  Result<Reply> info = client.ask({"INFO", "replication"}, timeout_ms);
  if (!info) return info.status();
  RedisEnd out;
  out.is_master = info_field(info->text, "role") == "master";
  out.id = info_field(info->text, "master_replid");
  out.id_before = info_field(info->text, "master_replid2");
  const char* offset = out.is_master ? "master_repl_offset" : "slave_repl_offset";
  out.offset = parse_int64(info_field(info->text, offset)).value_or(-1);
  out.offset_before = parse_int64(info_field(info->text, "second_repl_offset")).value_or(-1) - 1;
  return out;
}

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(void* reply) const { freeReplyObject(reply); }
};
using AnyReply = std::unique_ptr<void, FreeReply>;

// As a replica that stands at `from` would be given it, up to `to`.
Result<StreamTail> read_stream(const PlanSide& server, const std::string& id, int64_t from,
                               int64_t to, int64_t timeout_ms) {
  const timeval timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  const std::unique_ptr<redisContext, FreeContext> link(
      redisConnectWithTimeout(server.master.host.c_str(), server.master.port, timeout));
  const Status broken = Status::unavailable("its replication stream cannot be read");
  if (!link || link->err != 0) return broken;
  redisSetTimeout(link.get(), timeout);
  if (!server.password.empty()) {
    const AnyReply reply(redisCommand(link.get(), "AUTH %s", server.password.c_str()));
    if (!reply) return broken;
  }
  const AnyReply begun(
      redisCommand(link.get(), "PSYNC %s %lld", id.c_str(), static_cast<long long>(from + 1)));
  const auto* said = static_cast<redisReply*>(begun.get());
  if (said == nullptr || said->type != REDIS_REPLY_STATUS ||
      !std::string_view(said->str, said->len).starts_with("CONTINUE")) {
    return broken;
  }
  StreamTail out;
  while (out.bytes < to - from) {
    void* next = nullptr;
    if (redisGetReply(link.get(), &next) != REDIS_OK) return broken;
    const AnyReply owned(next);
    const auto* command = static_cast<redisReply*>(next);
    if (command == nullptr || command->type != REDIS_REPLY_ARRAY) return broken;
    std::vector<std::string> words;
    for (size_t i = 0; i < command->elements; ++i) {
      words.emplace_back(command->element[i]->str, command->element[i]->len);
    }
    out.add(words);
  }
  return out;
}

Succession compare_redis(Pair& pair) {
  const Result<RedisEnd> former = read_redis(pair.former, pair.timeout_ms);
  if (!former) return silent(pair, former.status());
  if (!former->is_master) return gone(pair, "is a replica by now");
  const Result<RedisEnd> now = read_redis(pair.successor, pair.timeout_ms);
  if (!now) return unknown(pair, now.status().text());
  if (former->id.empty()) return unknown(pair, "a Redis before 4 has no replication ids");
  if (former->offset < 0) return unknown(pair, "it says no offset");
  // Where the two part: the fork of a promoted one, or what a replica has.
  const bool follows = !now->is_master && now->id == former->id;
  const bool forked = now->is_master && now->id_before == former->id;
  if (!follows && !forked) {
    return unknown(pair, "their replication ids have nothing in common, as after a restart");
  }
  const int64_t has = follows ? now->offset : now->offset_before;
  if (former->offset <= has) return {};
  const Result<StreamTail> tail =
      read_stream(pair.former_side, former->id, has, former->offset, pair.timeout_ms);
  if (!tail) return unknown(pair, tail.status().text());
  if (tail->writes == 0) return {};
  return lacks(pair, cat(tail->writes, " commands (the first: ", printable(tail->first), ")"));
}

// ---- Pika: a fork is not seen there, so only equal ends are proof

using Ends = std::map<std::string, BinlogOffset>;

struct PikaEnds {
  bool is_master = false;
  Ends ends;
};

Result<PikaEnds> read_pika(RespClient& client, ServerKind kind, const SlotSet& slots,
                           int64_t timeout_ms) {
  PikaEnds out;
  if (kind == ServerKind::kPika) {
    Result<Reply> info = client.ask({"INFO", "replication"}, timeout_ms);
    if (!info) return info.status();
    Result<PikaReplication> said = parse_pika_replication(info->text);
    if (!said) return said.status();
    out.is_master = said->is_master;
    out.ends = said->binlog;
    return out;
  }
  Result<Reply> text = client.ask({"PKCLUSTER", "INFO", "SLOT", slots.text()}, timeout_ms);
  if (!text) return text.status();
  Result<std::map<int, PikaSlot>> said = parse_pika_slots(text->text);
  if (!said) return said.status();
  for (const auto& [slot, one] : *said) {
    if (!one.is_master || !slots.contains(slot)) continue;
    out.is_master = true;
    out.ends[std::to_string(slot)] = one.at;
  }
  return out;
}

Succession compare_pika(Pair& pair, ServerKind kind, const SlotSet& slots) {
  const Result<PikaEnds> former = read_pika(pair.former, kind, slots, pair.timeout_ms);
  if (!former) return silent(pair, former.status());
  if (!former->is_master) return gone(pair, "is a replica by now");
  const Result<PikaEnds> now = read_pika(pair.successor, kind, slots, pair.timeout_ms);
  if (!now) return unknown(pair, now.status().text());
  std::string behind;
  for (const auto& [binlog, at] : former->ends) {
    const auto theirs = now->ends.find(binlog);
    if (theirs == now->ends.end()) return unknown(pair, cat(binlog, " is not said"));
    if (theirs->second == at) continue;
    if (theirs->second > at) {
      return unknown(pair, cat(binlog, " is at ", theirs->second.text(), ", beyond ", at.text(),
                               ": it was written to since"));
    }
    behind = cat("a binlog end of ", at.text(), " (", binlog, "), ", theirs->second.text(),
                 " is the other's: writes");
  }
  return behind.empty() ? Succession{} : lacks(pair, behind);
}

}  // namespace

void StreamTail::add(const std::vector<std::string>& words) {
  bytes += static_cast<int64_t>(cat("*", words.size(), "\r\n").size());
  for (const std::string& word : words) {
    bytes += static_cast<int64_t>(cat("$", word.size(), "\r\n").size() + word.size() + 2);
  }
  const std::string name = words.empty() ? "" : to_lower(words[0]);
  if (name == "ping" || name == "select" || name == "replconf") return;
  if (++writes == 1) first = words.size() > 1 ? cat(words[0], " ", words[1]) : words[0];
}

Succession compare_successor(ServerKind kind, const PlanSide& former, const PlanSide& successor,
                             const SlotSet& slots, const std::string& name, int64_t timeout_ms) {
  Pair pair{former, RespClient(former.master, former.password, name),
            RespClient(successor.master, successor.password, name), timeout_ms};
  if (slots.empty()) return {};
  if (kind == ServerKind::kNode) return compare_nodes(pair, slots);
  if (kind == ServerKind::kRedis) return compare_redis(pair);
  return compare_pika(pair, kind, slots);
}

}  // namespace sf
