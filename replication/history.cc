#include "replication/history.h"

#include <algorithm>

#include "common/base/strings.h"

namespace sf {

std::string Position::text() const {
  return cat(history.empty() ? "-" : history, ":", seq);
}

bool is_history_id(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string encode_history(const History& history) {
  return cat(history.id, ":", history.parent.empty() ? "-" : history.parent, ":", history.fork);
}

Result<History> decode_history(std::string_view text) {
  auto parts = split(text, ':');
  if (parts.size() != 3) return Status::corrupt(cat("no history: ", printable(text)));
  auto fork = parse_uint64(parts[2]);
  bool parent_ok = parts[1] == "-" || is_history_id(parts[1]);
  if (!is_history_id(parts[0]) || !parent_ok || !fork) {
    return Status::corrupt(cat("no history: ", printable(text)));
  }
  return History{std::string(parts[0]), parts[1] == "-" ? "" : std::string(parts[1]), *fork};
}

const std::string& HistoryChain::current() const {
  static const std::string kNone;
  return entries_.empty() ? kNone : entries_.back().id;
}

int HistoryChain::find(std::string_view id) const {
  for (size_t i = entries_.size(); i > 0; --i) {
    if (entries_[i - 1].id == id) return static_cast<int>(i - 1);
  }
  return -1;
}

Status HistoryChain::add(History history) {
  if (!entries_.empty() && history.parent != current()) {
    return Status::invalid(cat("history ", history.id, " does not follow ", current()));
  }
  if (find(history.id) >= 0) {
    return Status::invalid(cat("history ", history.id, " is known already"));
  }
  entries_.push_back(std::move(history));
  if (entries_.size() > kRemembered) {
    entries_.erase(entries_.begin(), entries_.begin() + (entries_.size() - kRemembered));
  }
  return Status::ok();
}

bool HistoryChain::is_prefix(const Position& position, uint64_t end) const {
  int at = find(position.history);
  if (at < 0) return false;
  uint64_t limit = end;
  for (size_t i = static_cast<size_t>(at) + 1; i < entries_.size(); ++i) {
    limit = std::min(limit, entries_[i].fork);
  }
  return position.seq <= limit;
}

bool HistoryChain::covers(const Position& have, const Position& want) const {
  if (have.history == want.history) return have.seq >= want.seq;
  int from = find(want.history);
  int to = find(have.history);
  if (from < 0 || to < 0 || from > to) return false;
  uint64_t limit = have.seq;
  for (int i = from + 1; i <= to; ++i) {
    limit = std::min(limit, entries_[static_cast<size_t>(i)].fork);
  }
  return want.seq <= limit;
}

Position HistoryChain::normalize(Position position) const {
  int at = find(position.history);
  while (at >= 0 && entries_[static_cast<size_t>(at)].fork == position.seq &&
         !entries_[static_cast<size_t>(at)].parent.empty()) {
    position.history = entries_[static_cast<size_t>(at)].parent;
    --at;
  }
  return position;
}

std::string HistoryChain::encode() const {
  std::string out;
  for (const History& history : entries_) {
    if (!out.empty()) out.push_back(' ');
    out += encode_history(history);
  }
  return out;
}

Result<HistoryChain> HistoryChain::decode(std::string_view text) {
  HistoryChain chain;
  if (text.empty()) return chain;
  for (std::string_view part : split(text, ' ')) {
    auto history = decode_history(part);
    if (!history) return history.status();
    if (Status s = chain.add(std::move(*history)); !s) return Status::corrupt(s.text());
  }
  return chain;
}

}  // namespace sf
