// Locks of user keys: stripes, always taken in ascending order, so two commands never wait for each
// other in a circle. Held by the dispatcher for a command's keys, and by the expiry task.
//
// Who wants many keys, or all, has the whole table instead, and goes before those who come later.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string_view>
#include <vector>

namespace sf {

class KeyLocks {
 public:
  static constexpr size_t kStripes = 4096;
  static constexpr size_t kMany = 32;  // more stripes than this at once: the whole table

  // Released by the thread that took it.
  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept;
    Held& operator=(Held&& other) noexcept;
    ~Held() { release(); }
    void release();

   private:
    friend class KeyLocks;
    enum class Kind { kOne, kSome, kAll, kMore };
    KeyLocks* locks_ = nullptr;
    Kind kind_ = Kind::kOne;
    uint16_t one_ = 0;               // kOne, kMore
    std::vector<uint16_t> stripes_;  // kSome: ascending, no doubles
  };

  Held lock(int db, std::string_view key);
  Held lock(int db, std::span<const std::string_view> keys);
  Held lock_all();  // FLUSHALL, commands whose keys are not known
  // Keys of several dbs (EXEC): stripe numbers by stripe_of, in any order.
  Held lock_stripes(std::vector<uint16_t> stripes);
  // One more key for somebody who holds the locks of `held_keys` of `held_db`. Never waits: false
  // if it is taken by another (waiting could close a circle).
  bool try_lock_more(int db, std::string_view key, int held_db,
                     std::span<const std::string_view> held_keys, Held* more);
  static uint16_t stripe_of(int db, std::string_view key);

 private:
  struct alignas(64) Stripe {
    std::mutex mutex;
  };
  void enter();  // shared use of the table; behind one who waits for all of it

  std::array<Stripe, kStripes> stripes_;
  std::shared_mutex table_;  // shared: somebody holds stripes; exclusive: all of them
  std::mutex turnstile_;     // held by who waits for, or has, all
  std::atomic<bool> all_wanted_{false};
};

}  // namespace sf
