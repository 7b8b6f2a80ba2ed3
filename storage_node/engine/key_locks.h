// Locks of user keys: stripes, always taken in ascending order, so two commands never wait for each
// other in a circle. Held by the dispatcher for a command's keys, and by the expiry task.
#pragma once

#include <array>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace sf {

class KeyLocks {
 public:
  static constexpr size_t kStripes = 4096;

  class Held {
   public:
    Held() = default;
    Held(Held&& other) noexcept;
    Held& operator=(Held&& other) noexcept;
    ~Held() { release(); }
    void release();

   private:
    friend class KeyLocks;
    KeyLocks* locks_ = nullptr;
    bool all_ = false;
    size_t one_ = 0;                 // used while stripes_ is empty
    std::vector<uint16_t> stripes_;  // ascending, no doubles
  };

  Held lock(int db, std::string_view key);
  Held lock(int db, std::span<const std::string_view> keys);
  Held lock_all();  // FLUSHALL, EXEC, commands whose keys are not known
  // Several dbs' keys (COPY ... DB): stripe numbers by stripe_of.
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
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace sf
