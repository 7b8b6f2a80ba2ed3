#include "tests/unit/migrator/fake_data.h"

#include <algorithm>

#include "common/resp/encoder.h"
#include "common/slots/slot_hash.h"

namespace sf {
namespace {

std::string bulk_of(std::string_view text) {
  std::string out;
  resp::bulk(out, text);
  return out;
}

std::string integer_of(int64_t value) {
  std::string out;
  resp::integer(out, value);
  return out;
}

std::string list_of(const std::vector<std::string>& items) {
  std::string out;
  resp::array(out, items.size());
  for (const std::string& item : items) resp::bulk(out, item);
  return out;
}

std::string page_of(size_t cursor, const std::vector<std::string>& items) {
  std::string out;
  resp::array(out, 2);
  resp::bulk(out, std::to_string(cursor));
  return out + list_of(items);
}

size_t number_at(const Words& words, size_t at) {
  return static_cast<size_t>(parse_int64(words[at]).value_or(0));
}

}  // namespace

FakeData::FakeData() {
  server_.set_rule([this](const Words& words) {
    if (hook_) hook_(words);
    return FakeAction{FakeAction::Kind::kReply, answer(words)};
  });
}

void FakeData::put(const std::string& key, FakeValue value) {
  const std::lock_guard<std::mutex> guard(mutex_);
  values_[key] = std::move(value);
}

void FakeData::erase(const std::string& key) {
  const std::lock_guard<std::mutex> guard(mutex_);
  values_.erase(key);
}

int64_t FakeData::largest_reply() const {
  const std::lock_guard<std::mutex> guard(mutex_);
  return largest_reply_;
}

std::unique_ptr<Peer> FakeData::peer(const std::string& name) const {
  PeerOptions options;
  options.name = name;
  options.address = address();
  return std::make_unique<Peer>(std::move(options));
}

std::string FakeData::scan_keys(const Words& words, size_t cursor_at, int slot) {
  const size_t from = number_at(words, cursor_at);
  const size_t count = number_at(words, cursor_at + 2);
  std::vector<std::string> all;
  for (const auto& [key, value] : values_) {
    if (slot < 0 || slot_of(key) == slot) all.push_back(key);
  }
  const size_t end = std::min(all.size(), from + count);
  const std::vector<std::string> page(all.begin() + static_cast<long>(std::min(from, end)),
                                      all.begin() + static_cast<long>(end));
  return page_of(end == all.size() ? 0 : end, page);
}

std::string FakeData::scan_value(const FakeValue& value, const Words& words) {
  const size_t from = number_at(words, 2);
  const size_t end = std::min(value.pairs.size(), from + number_at(words, 4));
  std::vector<std::string> items;
  auto it = value.pairs.begin();
  std::advance(it, from);
  for (size_t i = from; i < end; ++i, ++it) {
    items.push_back(it->first);
    if (value.type != "set") items.push_back(it->second);
  }
  largest_reply_ = std::max(largest_reply_, static_cast<int64_t>(items.size()));
  return page_of(end == value.pairs.size() ? 0 : end, items);
}

std::string FakeData::read_value(const std::string& command, const FakeValue& value,
                                 const Words& words) {
  const auto size = [](size_t n) { return integer_of(static_cast<int64_t>(n)); };
  if (command == "STRLEN") return size(value.text.size());
  if (command == "LLEN") return size(value.list.size());
  if (command == "HLEN" || command == "SCARD" || command == "ZCARD")
    return size(value.pairs.size());
  if (command == "HSCAN" || command == "SSCAN" || command == "ZSCAN")
    return scan_value(value, words);
  const auto found = value.pairs.find(words.size() > 2 ? words[2] : "");
  if (command == "SISMEMBER") return integer_of(found != value.pairs.end() ? 1 : 0);
  if (command == "HGET" || command == "ZSCORE") {
    return found == value.pairs.end() ? "$-1\r\n" : bulk_of(found->second);
  }
  const size_t from = number_at(words, 2);
  if (command == "GETRANGE") {
    return from >= value.text.size()
               ? bulk_of("")
               : bulk_of(value.text.substr(from, number_at(words, 3) - from + 1));
  }
  if (command != "LRANGE") return "-ERR unknown command\r\n";
  std::vector<std::string> items;
  for (size_t i = from; i <= number_at(words, 3) && i < value.list.size(); ++i)
    items.push_back(value.list[i]);
  largest_reply_ = std::max(largest_reply_, static_cast<int64_t>(items.size()));
  return list_of(items);
}

std::string FakeData::answer(const Words& words) {
  const std::lock_guard<std::mutex> guard(mutex_);
  const std::string& command = words[0];
  if (command == "SCAN") return scan_keys(words, 1, -1);
  if (command == "SLOTSSCAN") return scan_keys(words, 2, static_cast<int>(number_at(words, 1)));
  const auto it = values_.find(words.size() > 1 ? words[1] : "");
  const bool there = it != values_.end();
  if (command == "TYPE") return cat("+", there ? it->second.type : "none", "\r\n");
  if (command == "PEXPIRETIME") return integer_of(there ? it->second.expire_ms : -2);
  const FakeValue none;
  return read_value(command, there ? it->second : none, words);
}

}  // namespace sf
