// PUBLISH and SUBSCRIBE within this node, as Redis has them for RESP2: messages go to who listens
// now and are kept for nobody.
//
// Limits: kPerClient subscriptions a client; a subscriber with more than kUnsentMax unread bytes is
// disconnected.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sf {

class SessionHub;

// Thread-safe.
class PubSub {
 public:
  static constexpr size_t kPerClient = 10'000;
  static constexpr size_t kUnsentMax = 8UL << 20;
  enum class Kind { kChannel, kPattern };

  // The subscriptions of one client; ends them when destroyed. Used on the client's loop. Must die
  // before the table.
  class Subscriber {
   public:
    Subscriber(PubSub& table, SessionHub& hub, uint64_t session)
        : table_(table), who_(&hub, session) {}
    ~Subscriber();
    Subscriber(const Subscriber&) = delete;
    Subscriber& operator=(const Subscriber&) = delete;

    void add(Kind kind, std::string_view name);
    void remove(Kind kind, std::string_view name);
    const std::set<std::string, std::less<>>& names(Kind kind) const { return of(kind); }
    size_t count() const { return channels_.size() + patterns_.size(); }

   private:
    std::set<std::string, std::less<>>& of(Kind kind);
    const std::set<std::string, std::less<>>& of(Kind kind) const;
    PubSub& table_;
    const std::pair<SessionHub*, uint64_t> who_;
    std::set<std::string, std::less<>> channels_;
    std::set<std::string, std::less<>> patterns_;
  };

  // Hands the message to the loops of those who listen; the number of them. One client's messages
  // reach a subscriber in their order.
  int64_t publish(std::string_view channel, std::string_view message);

  std::vector<std::string> channels(std::string_view pattern) const;  // with a subscriber
  int64_t subscribers(std::string_view channel) const;
  int64_t patterns() const;

 private:
  using Who = std::pair<SessionHub*, uint64_t>;
  using Names = std::map<std::string, std::set<Who>, std::less<>>;
  void add(Kind kind, std::string_view name, const Who& who);
  void remove(Kind kind, std::string_view name, const Who& who);

  mutable std::mutex mutex_;
  Names channels_;
  Names patterns_;
};

}  // namespace sf
