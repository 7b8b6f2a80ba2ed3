#include "storage_node/server/pubsub.h"

#include <memory>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/server/session_hub.h"

namespace sf {
namespace {

using Deliveries = std::vector<std::pair<uint64_t, std::shared_ptr<const std::string>>>;

void deliver(SessionHub& hub, const Deliveries& deliveries) {
  for (const auto& [id, bytes] : deliveries) {
    if (ClientSession* session = hub.find(id)) session->push(*bytes, PubSub::kUnsentMax);
  }
}

}  // namespace

// ---- one client

PubSub::Subscriber::~Subscriber() {
  for (const std::string& name : channels_) table_.remove(Kind::kChannel, name, who_);
  for (const std::string& name : patterns_) table_.remove(Kind::kPattern, name, who_);
}

std::set<std::string, std::less<>>& PubSub::Subscriber::of(Kind kind) {
  return kind == Kind::kChannel ? channels_ : patterns_;
}

const std::set<std::string, std::less<>>& PubSub::Subscriber::of(Kind kind) const {
  return kind == Kind::kChannel ? channels_ : patterns_;
}

void PubSub::Subscriber::add(Kind kind, std::string_view name) {
  if (of(kind).emplace(name).second) table_.add(kind, name, who_);
}

void PubSub::Subscriber::remove(Kind kind, std::string_view name) {
  const auto it = of(kind).find(name);
  if (it == of(kind).end()) return;
  table_.remove(kind, name, who_);
  of(kind).erase(it);
}

// ---- all of them

void PubSub::add(Kind kind, std::string_view name, const Who& who) {
  const std::lock_guard lock(mutex_);
  (kind == Kind::kChannel ? channels_ : patterns_)[std::string(name)].insert(who);
}

void PubSub::remove(Kind kind, std::string_view name, const Who& who) {
  const std::lock_guard lock(mutex_);
  Names& names = kind == Kind::kChannel ? channels_ : patterns_;
  const auto it = names.find(name);
  if (it == names.end()) return;
  it->second.erase(who);
  if (it->second.empty()) names.erase(it);
}

// Posted under the lock, so that all subscribers of a loop see the same order.
int64_t PubSub::publish(std::string_view channel, std::string_view message) {
  const std::lock_guard lock(mutex_);
  std::map<SessionHub*, Deliveries> by_hub;
  int64_t count = 0;
  auto add_all = [&](const std::set<Who>& listeners, std::string bytes) {
    const auto shared = std::make_shared<const std::string>(std::move(bytes));
    for (const auto& [hub, id] : listeners) by_hub[hub].emplace_back(id, shared);
    count += static_cast<int64_t>(listeners.size());
  };
  if (const auto it = channels_.find(channel); it != channels_.end()) {
    add_all(it->second, resp::request({"message", channel, message}));
  }
  for (const auto& [pattern, listeners] : patterns_) {
    if (!glob_match(pattern, channel)) continue;
    add_all(listeners, resp::request({"pmessage", pattern, channel, message}));
  }
  for (auto& [hub, deliveries] : by_hub) {
    hub->loop().post(
        [hub = hub, deliveries = std::move(deliveries)] { deliver(*hub, deliveries); });
  }
  return count;
}

std::vector<std::string> PubSub::channels(std::string_view pattern) const {
  std::vector<std::string> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, listeners] : channels_) {
    if (glob_match(pattern, name)) out.push_back(name);
  }
  return out;
}

int64_t PubSub::subscribers(std::string_view channel) const {
  const std::lock_guard lock(mutex_);
  const auto it = channels_.find(channel);
  return it == channels_.end() ? 0 : static_cast<int64_t>(it->second.size());
}

int64_t PubSub::patterns() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(patterns_.size());
}

}  // namespace sf
