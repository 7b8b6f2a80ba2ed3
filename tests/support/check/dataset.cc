#include "tests/support/check/dataset.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf::check {
namespace {

constexpr int64_t kFarFutureMs = 4'000'000'000'123;  // 2096, with odd milliseconds on purpose

void append_request(std::string& out, const std::vector<std::string>& words) {
  std::vector<std::string_view> argv(words.begin(), words.end());
  resp::request(out, argv);
}

std::vector<std::string> texts(const Reply& reply) {
  std::vector<std::string> out;
  for (const Reply& element : reply.elements) out.push_back(element.text);
  return out;
}

}  // namespace

std::vector<std::string> tags_of(const SlotSet& slots) {
  std::vector<std::string> tags;
  SlotSet left = slots;
  for (uint64_t number = 0; !left.empty(); ++number) {
    const std::string tag = cat("t", number);
    const int slot = slot_of(tag);
    if (!left.contains(slot)) continue;
    left.remove(slot);
    tags.push_back(tag);
  }
  return tags;
}

std::string key_in_slots(std::string_view prefix, uint64_t number,
                         const std::vector<std::string>& tags) {
  return cat(prefix, "{", tags[number % tags.size()], "}", number);
}

std::string Dataset::key(uint64_t number) const {
  return key_in_slots("data:", number, tags_);
}

std::string Dataset::element(uint64_t number, int i) const {
  return cat("e", i, "-", number * 7919 + seed_ + static_cast<uint64_t>(i),
             "-padding-to-some-length");
}

int64_t Dataset::expire_at_ms(uint64_t number) const {
  return number % 11 == 0 ? kFarFutureMs + static_cast<int64_t>(number) : 0;
}

int Dataset::make(uint64_t number, std::string& out) const {
  const std::string name = key(number);
  int replies = 2;
  append_request(out, {"DEL", name});
  std::vector<std::string> words;
  switch (type(number)) {
    case Type::kString:
      words = {"SET", name, element(number, 0)};
      break;
    case Type::kHash:
      words = {"HMSET", name};
      break;
    case Type::kList:
      words = {"RPUSH", name};
      break;
    case Type::kSet:
      words = {"SADD", name};
      break;
    case Type::kZset:
      words = {"ZADD", name};
      break;
  }
  if (type(number) != Type::kString) {
    for (int i = 0; i < elements(number); ++i) {
      if (type(number) == Type::kHash) words.push_back(cat("f", i));
      if (type(number) == Type::kZset) words.push_back(cat(i, ".5"));
      words.push_back(element(number, i));
    }
  }
  append_request(out, words);
  if (const int64_t at = expire_at_ms(number); at != 0) {
    append_request(out, {"PEXPIREAT", name, std::to_string(at)});
    ++replies;
  }
  return replies;
}

int Dataset::read(uint64_t number, std::string& out) const {
  const std::string name = key(number);
  switch (type(number)) {
    case Type::kString:
      append_request(out, {"GET", name});
      break;
    case Type::kHash:
      append_request(out, {"HGETALL", name});
      break;
    case Type::kList:
      append_request(out, {"LRANGE", name, "0", "-1"});
      break;
    case Type::kSet:
      append_request(out, {"SMEMBERS", name});
      break;
    case Type::kZset:
      append_request(out, {"ZRANGE", name, "0", "-1", "WITHSCORES"});
      break;
  }
  append_request(out, {"PTTL", name});
  return 2;
}

std::string Dataset::compare(uint64_t number, const std::vector<Reply>& replies) const {
  const std::string name = key(number);
  if (replies[0].is_error()) return cat(name, ": ", replies[0].text);
  if (type(number) == Type::kString) {
    if (replies[0].text != element(number, 0)) return cat(name, ": read '", replies[0].text, "'");
  } else {
    std::vector<std::string> want;
    for (int i = 0; i < elements(number); ++i) {
      if (type(number) == Type::kHash) want.push_back(cat("f", i));
      want.push_back(element(number, i));
      if (type(number) == Type::kZset) want.push_back(cat(i, ".5"));
    }
    std::vector<std::string> have = texts(replies[0]);
    if (type(number) == Type::kSet || type(number) == Type::kHash) {  // no order of their own
      std::sort(want.begin(), want.end());
      std::sort(have.begin(), have.end());
    }
    if (have != want)
      return cat(name, ": ", have.size(), " parts, wanted ", want.size(), " or other content");
  }
  const bool has_ttl = replies[1].integer > 0;
  if (has_ttl != (expire_at_ms(number) != 0)) return cat(name, ": PTTL ", replies[1].integer);
  return "";
}

}  // namespace sf::check
