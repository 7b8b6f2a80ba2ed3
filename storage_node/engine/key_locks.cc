#include "storage_node/engine/key_locks.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace sf {

KeyLocks::Held::Held(Held&& other) noexcept
    : locks_(std::exchange(other.locks_, nullptr)),
      kind_(other.kind_),
      one_(other.one_),
      stripes_(std::move(other.stripes_)) {}

KeyLocks::Held& KeyLocks::Held::operator=(Held&& other) noexcept {
  if (this == &other) return *this;
  release();
  locks_ = std::exchange(other.locks_, nullptr);
  kind_ = other.kind_;
  one_ = other.one_;
  stripes_ = std::move(other.stripes_);
  return *this;
}

void KeyLocks::Held::release() {
  if (locks_ == nullptr) return;
  KeyLocks& locks = *std::exchange(locks_, nullptr);
  switch (kind_) {
    case Kind::kOne:
      locks.stripes_[one_].mutex.unlock();
      locks.table_.unlock_shared();
      break;
    case Kind::kSome:
      for (const uint16_t stripe : stripes_) locks.stripes_[stripe].mutex.unlock();
      locks.table_.unlock_shared();
      break;
    case Kind::kAll:
      locks.table_.unlock();
      locks.all_wanted_ = false;
      locks.turnstile_.unlock();
      break;
    case Kind::kMore:
      locks.stripes_[one_].mutex.unlock();
      break;
  }
}

uint16_t KeyLocks::stripe_of(int db, std::string_view key) {
  return static_cast<uint16_t>(
      XXH3_64bits_withSeed(key.data(), key.size(), static_cast<XXH64_hash_t>(db)) % kStripes);
}

void KeyLocks::enter() {
  if (all_wanted_.load(std::memory_order_relaxed)) {
    turnstile_.lock();
    turnstile_.unlock();
  }
  table_.lock_shared();
}

KeyLocks::Held KeyLocks::lock(int db, std::string_view key) {
  enter();
  Held held;
  held.one_ = stripe_of(db, key);
  stripes_[held.one_].mutex.lock();
  held.locks_ = this;
  return held;
}

KeyLocks::Held KeyLocks::lock(int db, std::span<const std::string_view> keys) {
  if (keys.size() == 1) return lock(db, keys[0]);
  std::vector<uint16_t> stripes;
  stripes.reserve(keys.size());
  for (const std::string_view key : keys) stripes.push_back(stripe_of(db, key));
  return lock_stripes(std::move(stripes));
}

KeyLocks::Held KeyLocks::lock_stripes(std::vector<uint16_t> stripes) {
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  Held held;
  if (stripes.empty()) return held;
  if (stripes.size() > kMany) return lock_all();
  enter();
  for (const uint16_t stripe : stripes) stripes_[stripe].mutex.lock();
  held.kind_ = Held::Kind::kSome;
  held.stripes_ = std::move(stripes);
  held.locks_ = this;
  return held;
}

bool KeyLocks::try_lock_more(int db, std::string_view key, int held_db,
                             std::span<const std::string_view> held_keys, Held* more) {
  const uint16_t stripe = stripe_of(db, key);
  for (const std::string_view held_key : held_keys) {
    if (stripe_of(held_db, held_key) == stripe) return true;
  }
  if (!stripes_[stripe].mutex.try_lock()) return false;
  more->kind_ = Held::Kind::kMore;
  more->one_ = stripe;
  more->locks_ = this;
  return true;
}

KeyLocks::Held KeyLocks::lock_all() {
  Held held;
  turnstile_.lock();
  all_wanted_ = true;
  table_.lock();
  held.kind_ = Held::Kind::kAll;
  held.locks_ = this;
  return held;
}

}  // namespace sf
