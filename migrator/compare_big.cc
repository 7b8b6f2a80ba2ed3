#include "migrator/key_image.h"

namespace sf {
namespace {

constexpr int64_t kStringChunk = 1 << 20;
constexpr int64_t kElementChunk = 1024;

struct Pair {
  Peer& leader;
  Peer& follower;
  const std::string& key;
};

// The same request to both; "" if both answer alike.
Result<std::string> same_answer(const Pair& pair, const Argv& request, const std::string& what,
                                Reply* leader_reply = nullptr) {
  auto left = pair.leader.expect(request);
  if (!left) return left.status();
  const auto right = pair.follower.expect(request);
  if (!right) return right.status();
  const bool scalar = left->word() == right->word() && left->items.size() == right->items.size();
  bool same = scalar;
  size_t at = 0;
  for (; same && at < left->items.size(); ++at)
    same = left->items[at].word() == right->items[at].word();
  if (leader_reply != nullptr) *leader_reply = std::move(*left);
  return same ? std::string() : what;
}

Result<std::string> compare_ranges(const Pair& pair, const char* size_command,
                                   const char* range_command, int64_t chunk) {
  Reply size;
  auto differs = same_answer(pair, {size_command, pair.key}, "length", &size);
  if (!differs || !differs->empty()) return differs;
  for (int64_t at = 0; at < size.integer; at += chunk) {
    const Argv request = {range_command, pair.key, std::to_string(at),
                          std::to_string(at + chunk - 1)};
    differs = same_answer(pair, request, cat("between ", at, " and ", at + chunk - 1));
    if (!differs || !differs->empty()) return differs;
  }
  return std::string();
}

// Asks the follower about the elements of one page of the leader's scan: fields of a hash, members
// of a set or a sorted set. `width` 2: each element is followed by what the follower must answer.
Result<std::string> compare_page(const Pair& pair, const std::string& type, const Reply& page,
                                 size_t width) {
  std::vector<Argv> requests;
  for (size_t i = 0; i + width <= page.items.size(); i += width) {
    const char* command = type == "hash" ? "HGET" : type == "set" ? "SISMEMBER" : "ZSCORE";
    requests.push_back({command, pair.key, page.items[i].word()});
  }
  const auto replies = pair.follower.pipeline(requests);
  if (!replies) return replies.status();
  for (size_t n = 0; n < replies->size(); ++n) {
    const std::string expected = width == 2 ? page.items[2 * n + 1].word() : "1";
    const Reply& reply = (*replies)[n];
    if (!reply.is_nil() && !reply.is_error() && reply.word() == expected) continue;
    return cat("element ", printable(page.items[n * width].word()));
  }
  return std::string();
}

// Every element of the leader is on the follower, and both have as many: so they are the same.
Result<std::string> compare_scan(const Pair& pair, const std::string& type,
                                 const char* size_command, const char* scan_command, size_t width) {
  auto differs = same_answer(pair, {size_command, pair.key}, "number of elements");
  if (!differs || !differs->empty()) return differs;
  std::string cursor = "0";
  do {
    const auto page = pair.leader.expect(
        {scan_command, pair.key, cursor, "COUNT", std::to_string(kElementChunk)});
    if (!page) return page.status();
    if (page->items.size() != 2)
      return Status::corrupt(cat(pair.leader.label(), " answers ", scan_command, " oddly"));
    differs = compare_page(pair, type, page->items[1], width);
    if (!differs || !differs->empty()) return differs;
    cursor = page->items[0].word();
  } while (cursor != "0");
  return std::string();
}

Result<std::string> compare_stream(const Pair& pair) {
  auto differs = same_answer(pair, {"XLEN", pair.key}, "number of entries");
  if (!differs || !differs->empty()) return differs;
  std::string from = "-";
  while (true) {
    const Argv request = {"XRANGE", pair.key, from, "+", "COUNT", std::to_string(kElementChunk)};
    const auto left = pair.leader.expect(request);
    if (!left) return left.status();
    const auto right = pair.follower.expect(request);
    if (!right) return right.status();
    if (left->items.size() != right->items.size()) return cat("entries from ", from);
    for (size_t i = 0; i < left->items.size(); ++i) {
      const Reply& a = left->items[i];
      const Reply& b = right->items[i];
      bool same = a.items.size() == 2 && b.items.size() == 2 &&
                  a.items[0].word() == b.items[0].word() &&
                  a.items[1].items.size() == b.items[1].items.size();
      for (size_t j = 0; same && j < a.items[1].items.size(); ++j) {
        same = a.items[1].items[j].word() == b.items[1].items[j].word();
      }
      if (!same) return cat("entry ", a.items.empty() ? from : a.items[0].word());
      from = "(" + a.items[0].word();
    }
    if (static_cast<int64_t>(left->items.size()) < kElementChunk) return std::string();
  }
}

}  // namespace

Result<std::string> compare_big(Peer& leader, Peer& follower, const std::string& key,
                                const std::string& type) {
  const Pair pair{leader, follower, key};
  if (type == "string") return compare_ranges(pair, "STRLEN", "GETRANGE", kStringChunk);
  if (type == "list") return compare_ranges(pair, "LLEN", "LRANGE", kElementChunk);
  if (type == "hash") return compare_scan(pair, type, "HLEN", "HSCAN", 2);
  if (type == "set") return compare_scan(pair, type, "SCARD", "SSCAN", 1);
  if (type == "zset") return compare_scan(pair, type, "ZCARD", "ZSCAN", 2);
  if (type == "stream") return compare_stream(pair);
  return cat("type ", type, " cannot be read");
}

}  // namespace sf
