// Seeded random commands against plain in-memory models, also after the engine was opened again.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "common/base/random.h"
#include "common/resp/encoder.h"
#include "storage_node/types/list.h"
#include "tests/unit/storage_node/command/shell.h"

namespace sf {

namespace {

constexpr int kSteps = 6000;
constexpr int kReopenEvery = 1500;

std::string num(int64_t value) {
  return ":" + std::to_string(value) + "\r\n";
}
std::string nil() {
  return "$-1\r\n";
}

std::string text(Random& random, uint64_t variety) {
  static const std::string kOdd[] = {"", std::string("\0", 1), "\xff\xff", "\r\n", "a", "ab"};
  uint64_t pick = random.below(variety);
  return pick < 6 ? kOdd[pick] : "v" + std::to_string(pick);
}

struct Walk {
  explicit Walk(uint64_t seed) : random(seed) {}
  Shell shell;
  Random random;
  std::string key() { return std::string("k") + std::string(random.below(3), '\0'); }
  std::string member() { return text(random, 24); }
  // True now and then: the key is deleted, or everything was closed and opened.
  bool disturb(int step, const std::string& k) {
    if (step % kReopenEvery == kReopenEvery - 1) shell.reopen();
    if (random.below(150) != 0) return false;
    shell.erase(k);
    return true;
  }
};

}  // namespace

TEST_CASE("hash commands answer as a map does") {
  Walk walk(11);
  std::map<std::string, std::map<std::string, std::string>> model;
  for (int step = 0; step < kSteps; ++step) {
    std::string k = walk.key();
    if (walk.disturb(step, k)) model.erase(k);
    auto& hash = model[k];
    std::string f = walk.member();
    std::string g = walk.member();
    std::string v = walk.member();
    CAPTURE(step);
    switch (walk.random.below(8)) {
      case 0: {
        int64_t added = (hash.count(f) ? 0 : 1) + (f != g && !hash.count(g) ? 1 : 0);
        hash[f] = v;
        hash[g] = f;
        REQUIRE(walk.shell({"HSET", k, f, v, g, f}) == num(added));
        break;
      }
      case 1:
        REQUIRE(walk.shell({"HGET", k, f}) == (hash.count(f) ? bulk(hash[f]) : nil()));
        break;
      case 2: {
        int64_t removed = static_cast<int64_t>(hash.erase(f) + hash.erase(g));
        REQUIRE(walk.shell({"HDEL", k, f, g}) == num(removed));
        break;
      }
      case 3: {
        std::vector<std::string> all;
        for (auto& [field, value] : hash) all.insert(all.end(), {field, value});
        REQUIRE(walk.shell({"HGETALL", k}) == bulks(all));
        break;
      }
      case 4:
        REQUIRE(walk.shell({"HLEN", k}) == num(static_cast<int64_t>(hash.size())));
        REQUIRE(walk.shell.stored(k) == !hash.empty());
        break;
      case 5:
        REQUIRE(walk.shell({"HSETNX", k, f, v}) == num(hash.try_emplace(f, v).second ? 1 : 0));
        break;
      case 6: {
        std::string n = "n" + std::to_string(walk.random.below(3));
        int64_t sum = (hash.count(n) ? std::stoll(hash[n]) : 0) + step;
        hash[n] = std::to_string(sum);
        REQUIRE(walk.shell({"HINCRBY", k, n, std::to_string(step)}) == num(sum));
        break;
      }
      default:
        REQUIRE(walk.shell({"HEXISTS", k, f}) == num(hash.count(f) ? 1 : 0));
    }
  }
}

namespace {

std::vector<std::string> slice(const std::deque<std::string>& list, int64_t start, int64_t stop) {
  auto range = clip_range(list.size(), start, stop);
  if (!range) return {};
  return {list.begin() + static_cast<long>(range->first),
          list.begin() + static_cast<long>(range->last) + 1};
}

int64_t model_remove(std::deque<std::string>& list, int64_t count, const std::string& element) {
  int64_t wanted = count == 0 ? static_cast<int64_t>(list.size()) : std::abs(count);
  int64_t removed = 0;
  if (count < 0) std::reverse(list.begin(), list.end());
  for (auto it = list.begin(); it != list.end() && removed < wanted;) {
    if (*it == element) {
      it = list.erase(it);
      ++removed;
    } else {
      ++it;
    }
  }
  if (count < 0) std::reverse(list.begin(), list.end());
  return removed;
}

}  // namespace

TEST_CASE("list commands answer as a deque does") {
  Walk walk(12);
  std::map<std::string, std::deque<std::string>> model;
  for (int step = 0; step < kSteps; ++step) {
    std::string k = walk.key();
    if (walk.disturb(step, k)) model.erase(k);
    auto& list = model[k];
    std::string a = text(walk.random, 9);
    std::string b = text(walk.random, 9);
    int64_t i = static_cast<int64_t>(walk.random.below(24)) - 12;
    int64_t j = static_cast<int64_t>(walk.random.below(24)) - 12;
    CAPTURE(step);
    switch (walk.random.below(10)) {
      case 0:
      case 1:
        list.push_front(a);
        list.push_front(b);
        REQUIRE(walk.shell({"LPUSH", k, a, b}) == num(static_cast<int64_t>(list.size())));
        break;
      case 2:
        list.push_back(a);
        REQUIRE(walk.shell({"RPUSH", k, a}) == num(static_cast<int64_t>(list.size())));
        break;
      case 3: {
        std::string expected = list.empty() ? nil() : bulk(list.front());
        if (!list.empty()) list.pop_front();
        REQUIRE(walk.shell({"LPOP", k}) == expected);
        break;
      }
      case 4: {
        int64_t last = static_cast<int64_t>(list.size()) - 1;
        auto expected = slice(list, last - 1, last);
        std::reverse(expected.begin(), expected.end());
        std::string reply = list.empty() ? "*-1\r\n" : bulks(expected);
        for (size_t n = 0; n < expected.size(); ++n) list.pop_back();
        REQUIRE(walk.shell({"RPOP", k, "2"}) == reply);
        break;
      }
      case 5:
        REQUIRE(walk.shell({"LREM", k, std::to_string(i / 4), a}) ==
                num(model_remove(list, i / 4, a)));
        break;
      case 6: {
        auto at = std::find(list.begin(), list.end(), a);
        int64_t expected = list.empty() ? 0 : -1;
        if (at != list.end()) {
          list.insert(i < 0 ? at : at + 1, b);
          expected = static_cast<int64_t>(list.size());
        }
        REQUIRE(walk.shell({"LINSERT", k, i < 0 ? "BEFORE" : "AFTER", a, b}) == num(expected));
        break;
      }
      case 7: {
        auto kept = slice(list, i, j + 8);
        list.assign(kept.begin(), kept.end());
        REQUIRE(walk.shell({"LTRIM", k, std::to_string(i), std::to_string(j + 8)}) == "+OK\r\n");
        break;
      }
      case 8: {
        if (!list.empty()) {
          list.push_front(list.back());
          list.pop_back();
        }
        REQUIRE(walk.shell({"RPOPLPUSH", k, k}) == (list.empty() ? nil() : bulk(list.front())));
        break;
      }
      default:
        REQUIRE(walk.shell({"LRANGE", k, std::to_string(i), std::to_string(j)}) ==
                bulks(slice(list, i, j)));
        REQUIRE(walk.shell.stored(k) == !list.empty());
    }
  }
}

TEST_CASE("set commands answer as a set does") {
  Walk walk(13);
  std::map<std::string, std::set<std::string>> model;
  for (int step = 0; step < kSteps; ++step) {
    std::string k = walk.key();
    std::string other = walk.key();
    if (walk.disturb(step, k)) model.erase(k);
    auto& set = model[k];
    auto& second = model[other];
    std::string a = walk.member();
    std::string b = walk.member();
    std::vector<std::string> both;
    CAPTURE(step);
    switch (walk.random.below(8)) {
      case 0:
      case 1: {
        int64_t added = set.insert(a).second ? 1 : 0;
        added += set.insert(b).second ? 1 : 0;
        REQUIRE(walk.shell({"SADD", k, a, b}) == num(added));
        break;
      }
      case 2:
        REQUIRE(walk.shell({"SREM", k, a}) == num(static_cast<int64_t>(set.erase(a))));
        break;
      case 3: {
        bool there = set.count(a) != 0;
        if (there) {
          set.erase(a);
          second.insert(a);
        }
        REQUIRE(walk.shell({"SMOVE", k, other, a}) == num(there ? 1 : 0));
        break;
      }
      case 4:
        std::set_intersection(set.begin(), set.end(), second.begin(), second.end(),
                              std::back_inserter(both));
        REQUIRE(walk.shell({"SINTER", k, other}) == bulks(both));
        break;
      case 5:
        std::set_difference(set.begin(), set.end(), second.begin(), second.end(),
                            std::back_inserter(both));
        model["d"] = {both.begin(), both.end()};
        REQUIRE(walk.shell({"SDIFFSTORE", "d", k, other}) ==
                num(static_cast<int64_t>(both.size())));
        REQUIRE(walk.shell({"SMEMBERS", "d"}) == bulks(both));
        break;
      case 6: {
        uint64_t before = set.size();
        std::string reply = walk.shell({"SPOP", k});
        auto popped = std::find_if(set.begin(), set.end(), [&](const std::string& member) {
          return bulk(member) == reply;
        });
        REQUIRE((popped != set.end()) == (before != 0));
        if (popped != set.end()) set.erase(popped);
        break;
      }
      default:
        REQUIRE(walk.shell({"SMEMBERS", k}) == bulks({set.begin(), set.end()}));
        REQUIRE(walk.shell({"SCARD", k}) == num(static_cast<int64_t>(set.size())));
        REQUIRE(walk.shell.stored(k) == !set.empty());
    }
  }
}

namespace {

using ZsetModel = std::map<std::string, double>;

std::vector<std::pair<double, std::string>> ordered(const ZsetModel& zset) {
  std::vector<std::pair<double, std::string>> out;
  for (auto& [member, score] : zset) out.emplace_back(score, member);
  std::sort(out.begin(), out.end());
  return out;
}

std::string scored(std::vector<std::pair<double, std::string>> members) {
  std::vector<std::string> flat;
  for (auto& [score, member] : members) {
    flat.insert(flat.end(), {member, resp::format_double(score)});
  }
  return bulks(flat);
}

}  // namespace

TEST_CASE("sorted set commands answer as an ordered map does") {
  Walk walk(14);
  std::map<std::string, ZsetModel> model;
  for (int step = 0; step < kSteps; ++step) {
    std::string k = walk.key();
    if (walk.disturb(step, k)) model.erase(k);
    auto& zset = model[k];
    std::string a = walk.member();
    std::string b = walk.member();
    double x = (static_cast<double>(walk.random.below(41)) - 20) / 4;
    double y = (static_cast<double>(walk.random.below(41)) - 20) / 4;
    std::string xs = resp::format_double(x);
    std::string ys = resp::format_double(y);
    CAPTURE(step);
    switch (walk.random.below(9)) {
      case 0:
      case 1: {
        int64_t added = (zset.count(a) ? 0 : 1) + (a != b && !zset.count(b) ? 1 : 0);
        zset[a] = x;
        zset[b] = y;
        REQUIRE(walk.shell({"ZADD", k, xs, a, ys, b}) == num(added));
        break;
      }
      case 2:
        zset[a] += x;
        REQUIRE(walk.shell({"ZINCRBY", k, xs, a}) == bulk(resp::format_double(zset[a])));
        break;
      case 3:
        REQUIRE(walk.shell({"ZREM", k, a}) == num(static_cast<int64_t>(zset.erase(a))));
        break;
      case 4: {
        auto all = ordered(zset);
        std::erase_if(all, [&](auto& one) { return one.first < x || one.first >= y; });
        REQUIRE(walk.shell({"ZRANGEBYSCORE", k, xs, "(" + ys, "WITHSCORES"}) == scored(all));
        std::reverse(all.begin(), all.end());
        REQUIRE(walk.shell({"ZRANGE", k, "(" + ys, xs, "BYSCORE", "REV", "WITHSCORES"}) ==
                scored(all));
        break;
      }
      case 5: {
        auto all = ordered(zset);
        std::deque<std::string> members;
        for (auto& one : all) members.push_back(one.second);
        int64_t i = static_cast<int64_t>(walk.random.below(30)) - 15;
        REQUIRE(walk.shell({"ZRANGE", k, std::to_string(i), "7"}) == bulks(slice(members, i, 7)));
        auto at = std::find(members.begin(), members.end(), a);
        REQUIRE(walk.shell({"ZRANK", k, a}) ==
                (at == members.end() ? nil() : num(at - members.begin())));
        break;
      }
      case 6: {
        auto all = ordered(zset);
        if (all.size() > 2) all.resize(2);
        for (auto& one : all) zset.erase(one.second);
        REQUIRE(walk.shell({"ZPOPMIN", k, "2"}) == scored(all));
        break;
      }
      case 7: {
        auto removed = std::erase_if(zset, [&](auto& one) { return one.second > x; });
        REQUIRE(walk.shell({"ZREMRANGEBYSCORE", k, "(" + xs, "+inf"}) ==
                num(static_cast<int64_t>(removed)));
        break;
      }
      default:
        REQUIRE(walk.shell({"ZRANGE", k, "0", "-1", "WITHSCORES"}) == scored(ordered(zset)));
        REQUIRE(walk.shell({"ZCARD", k}) == num(static_cast<int64_t>(zset.size())));
        REQUIRE(walk.shell.stored(k) == !zset.empty());
    }
  }
}

}  // namespace sf
