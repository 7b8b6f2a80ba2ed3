// A RouteTable folded into one byte a slot, so that the hot path decides with one load and one
// mask.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "proxy_shim/data/route_table.h"

namespace sf {

enum class Side : uint8_t { kOld = 0, kNew = 1 };

enum RouteFlag : uint8_t {
  kRouteNew = 1U << 0,         // owner is the new side
  kRouteHoldWrites = 1U << 1,  // HOLD, BARRIER, PROMOTE
  kRouteHoldReads = 1U << 2,   // PROMOTE
  kRouteOutside = 1U << 3,
  kRouteDoubt = 1U << 4,
  kRouteFinal = 1U << 5,
  kRouteNoted = 1U << 7,    // writes are looked at for the heal list (DESIGN 6.4)
  kRouteStopped = 1U << 6,  // writes refused until the group's master is known (DESIGN 6.6)
};

// Flags that keep a request off the straight way to its owner.
inline constexpr uint8_t kWriteBlocked =
    kRouteHoldWrites | kRouteOutside | kRouteDoubt | kRouteStopped;
inline constexpr uint8_t kReadBlocked = kRouteHoldReads | kRouteOutside | kRouteDoubt;

// Immutable after construction. One worker's thread.
class Routes {
 public:
  explicit Routes(std::shared_ptr<const RouteTable> table);

  uint8_t flags(int slot) const { return flags_[static_cast<size_t>(slot)]; }
  static Side side_of(uint8_t flags) { return (flags & kRouteNew) != 0 ? Side::kNew : Side::kOld; }
  bool any_write_held() const { return any_write_held_; }
  const RouteTable& table() const { return *table_; }
  const BackendAddress& address(Side side) const {
    return side == Side::kOld ? table_->old_side : table_->new_side;
  }

  // The error for a client whose request `slot` cannot take, by its flags; "" if it can. The text
  // begins with its code: "ERR ...", "TRYAGAIN ...".
  std::string refusal(int slot, bool is_write) const;

 private:
  std::shared_ptr<const RouteTable> table_;
  std::array<uint8_t, kSlotCount> flags_{};
  bool any_write_held_ = false;
};

}  // namespace sf
