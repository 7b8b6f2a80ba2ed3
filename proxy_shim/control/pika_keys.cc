#include "proxy_shim/control/pika_keys.h"

#include <algorithm>
#include <cstdlib>

namespace sf {
namespace {

using Request = std::vector<std::string>;
using Requests = std::vector<Request>;

constexpr size_t kBatch = 64;      // keys a round trip
constexpr size_t kElements = 512;  // of one command that writes
constexpr int kClockTries = 5;     // a batch is read again when the second changed under it
constexpr const char* kScanCount = "10000";

// Servers of Pika 4.0 have one type a key, and say so; a stream that never was is an error of 3.5.
bool says_nothing_there(const Reply& reply) {
  return reply.is_error() && (reply.text.find("WRONGTYPE") != std::string::npos ||
                              reply.text.find("Invalid type") != std::string::npos ||
                              reply.text.find("no such key") != std::string::npos);
}

bool same_scores(const std::map<std::string, std::string>& a,
                 const std::map<std::string, std::string>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first &&
                  std::strtod(x.second.c_str(), nullptr) == std::strtod(y.second.c_str(), nullptr);
         });
}

std::map<std::string, std::string> pairs_of(const std::vector<Reply>& flat) {
  std::map<std::string, std::string> out;
  for (size_t i = 0; i + 1 < flat.size(); i += 2) out[flat[i].text] = flat[i + 1].text;
  return out;
}

// One batch: the questions, and what the answers say.
class Batch {
 public:
  Batch(RespClient& client, std::span<const HealKey> keys, const PikaAsked& asked,
        int64_t timeout_ms)
      : client_(client), keys_(keys), asked_(asked), timeout_ms_(timeout_ms) {}

  Result<std::vector<PikaValue>> read() {
    for (int turn = 0; turn < kClockTries; ++turn) {
      Result<std::vector<PikaValue>> values = read_once();
      // A TTL is whole seconds from now: it names a moment only if the second stayed the same.
      if (!values || !second_changed_) return values;
    }
    return Status::unavailable(cat(client_.address().text(), " takes longer than a second for ",
                                   keys_.size(), " keys: their TTLs cannot be compared"));
  }

 private:
  Requests questions() const {
    Requests out{{"TIME"}};
    int db = 0;
    for (const HealKey& at : keys_) {
      if (at.db != db) out.push_back({"SELECT", std::to_string(at.db)});
      db = at.db;
      out.push_back({"GET", at.key});
      out.push_back({"HGETALL", at.key});
      out.push_back({"LRANGE", at.key, "0", "-1"});
      out.push_back({"SMEMBERS", at.key});
      out.push_back({"ZSCAN", at.key, "0", "COUNT", kScanCount});
      if (asked_.streams) out.push_back({"XRANGE", at.key, "-", "+"});
      out.push_back({"TTL", at.key});
    }
    out.push_back({"TIME"});
    if (db != 0) out.push_back({"SELECT", "0"});
    return out;
  }

  Result<std::vector<PikaValue>> read_once() {
    const Requests requests = questions();
    Result<std::vector<Reply>> replies = client_.call_all(requests, timeout_ms_);
    if (!replies) return replies.status();
    std::vector<PikaValue> out;
    std::vector<int64_t> ttls;
    int64_t times[2] = {0, 0};
    int seen = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Reply& reply = (*replies)[i];
      const std::string& name = requests[i][0];
      if (reply.is_error() && (name == "SELECT" || !says_nothing_there(reply))) {
        return Status::refused(
            cat(client_.address().text(), " answers ", name, " with ", reply.text));
      }
      if (name == "TIME") {
        if (reply.elements.empty()) return Status::corrupt("TIME is not answered with a time");
        times[seen++] = parse_int64(reply.elements[0].text).value_or(0);
      } else if (name == "GET") {
        out.emplace_back();
        if (reply.type == Reply::Type::kBulk) out.back().text = reply.text;
      } else if (name == "TTL") {
        ttls.push_back(reply.integer);
      } else if (name != "SELECT" && !reply.is_error()) {
        Status status = take(name, requests[i][1], reply, &out.back());
        if (!status) return status;
      }
    }
    const bool any_ttl = std::any_of(ttls.begin(), ttls.end(), [](int64_t t) { return t >= 0; });
    second_changed_ = any_ttl && times[0] != times[1];
    for (size_t i = 0; i < out.size(); ++i) {
      out[i].read_s = times[1];
      out[i].slack_s = asked_.slack_s;
      if (ttls[i] >= 0) out[i].until_s = times[1] + ttls[i];
    }
    return out;
  }

  Status take(const std::string& name, const std::string& key, const Reply& reply,
              PikaValue* value) {
    if (name == "HGETALL") value->hash = pairs_of(reply.elements);
    if (name == "LRANGE") {
      for (const Reply& one : reply.elements) value->list.push_back(one.text);
    }
    if (name == "SMEMBERS") {
      for (const Reply& one : reply.elements) value->members.insert(one.text);
    }
    if (name == "XRANGE") {
      for (const Reply& one : reply.elements) {
        if (one.elements.size() != 2) return Status::corrupt("XRANGE answers no entries");
        PikaValue::Entry& entry = value->stream.emplace_back();
        entry.id = one.elements[0].text;
        for (const Reply& part : one.elements[1].elements) entry.parts.push_back(part.text);
      }
    }
    return name == "ZSCAN" ? take_scores(key, reply, value) : Status::ok();
  }

  Status take_scores(const std::string& key, const Reply& first, PikaValue* value) {
    Reply page = first;
    for (;;) {
      if (page.elements.size() != 2) {
        return Status::corrupt(cat(client_.address().text(), " answers ZSCAN with no page"));
      }
      for (auto& [member, score] : pairs_of(page.elements[1].elements)) {
        value->scores[member] = score;
      }
      const std::string cursor = page.elements[0].text;
      if (cursor == "0") return Status::ok();
      // In database 0 only: the batch has gone back to it. Others are read whole in one page.
      Result<Reply> next = client_.ask({"ZSCAN", key, cursor, "COUNT", kScanCount}, timeout_ms_);
      if (!next) return next.status();
      page = std::move(*next);
    }
  }

  RespClient& client_;
  const std::span<const HealKey> keys_;
  const PikaAsked asked_;
  const int64_t timeout_ms_;
  bool second_changed_ = false;
};

// `command key element...`, in pieces.
void add_pieces(Requests* out, const Request& head, const std::vector<std::string>& elements,
                size_t step) {
  for (size_t i = 0; i < elements.size(); i += kElements * step) {
    Request piece = head;
    const size_t end = std::min(elements.size(), i + kElements * step);
    for (size_t j = i; j < end; ++j) piece.push_back(elements[j]);
    out->push_back(std::move(piece));
  }
}

bool same_time(const PikaValue& a, const PikaValue& b) {
  if (a.until_s == 0 || b.until_s == 0) return a.until_s == b.until_s;
  return std::abs(a.until_s - b.until_s) <= std::max(a.slack_s, b.slack_s);
}

std::string time_text(int64_t until_s) {
  return until_s == 0 ? std::string("none") : std::to_string(until_s);
}

}  // namespace

bool PikaValue::empty() const {
  return !text && hash.empty() && list.empty() && members.empty() && scores.empty() &&
         stream.empty();
}

bool PikaValue::same_content(const PikaValue& other) const {
  return text == other.text && hash == other.hash && list == other.list &&
         members == other.members && same_scores(scores, other.scores) && stream == other.stream;
}

bool same(const PikaValue& old_value, const PikaValue& new_value) {
  const auto is_over = [](const PikaValue& value) {
    return value.until_s != 0 && value.until_s <= value.read_s + value.slack_s + 1;
  };
  if (old_value.empty() && is_over(new_value)) return true;
  if (new_value.empty() && is_over(old_value)) return true;
  return old_value.same_content(new_value) && same_time(old_value, new_value);
}

std::string difference(const PikaValue& was, const PikaValue& is) {
  if (is.empty()) return "it was missing";
  if (was.empty()) return "it was there, deleted on the old side";
  if (was.same_content(is)) {
    return cat("its TTL ended at ", time_text(is.until_s), ", not ", time_text(was.until_s));
  }
  if (was.text != is.text) return "its string was another";
  if (was.hash != is.hash) return "its hash was another";
  if (was.list != is.list) return "its list was another";
  if (was.members != is.members) return "its set was another";
  if (!same_scores(was.scores, is.scores)) return "its sorted set was another";
  return "its stream was another";
}

Result<std::vector<PikaValue>> read_keys(RespClient& client, std::span<const HealKey> keys,
                                         const PikaAsked& asked, int64_t timeout_ms) {
  std::vector<PikaValue> out;
  out.reserve(keys.size());
  for (size_t at = 0; at < keys.size(); at += kBatch) {
    Batch batch(client, keys.subspan(at, std::min(kBatch, keys.size() - at)), asked, timeout_ms);
    Result<std::vector<PikaValue>> values = batch.read();
    if (!values) return values.status();
    std::move(values->begin(), values->end(), std::back_inserter(out));
  }
  return out;
}

std::vector<std::vector<std::string>> repair(const std::string& key, const PikaValue& is,
                                             const PikaValue& wanted) {
  Requests out;
  const std::string until = std::to_string(wanted.until_s + wanted.slack_s);
  if (!is.same_content(wanted) || wanted.empty()) {
    out.push_back({"DEL", key});
    if (wanted.text) out.push_back({"SET", key, *wanted.text});
    std::vector<std::string> fields, members, scores;
    for (const auto& [field, value] : wanted.hash) fields.insert(fields.end(), {field, value});
    members.assign(wanted.members.begin(), wanted.members.end());
    for (const auto& [member, score] : wanted.scores) scores.insert(scores.end(), {score, member});
    add_pieces(&out, {"HMSET", key}, fields, 2);
    add_pieces(&out, {"RPUSH", key}, wanted.list, 1);
    add_pieces(&out, {"SADD", key}, members, 1);
    add_pieces(&out, {"ZADD", key}, scores, 2);
    for (const PikaValue::Entry& entry : wanted.stream) {
      Request add{"XADD", key, entry.id};
      add.insert(add.end(), entry.parts.begin(), entry.parts.end());
      out.push_back(std::move(add));
    }
    if (wanted.until_s != 0) out.push_back({"EXPIREAT", key, until});
    return out;
  }
  if (wanted.until_s == 0) out.push_back({"PERSIST", key});
  if (wanted.until_s != 0) out.push_back({"EXPIREAT", key, until});
  return out;
}

}  // namespace sf
