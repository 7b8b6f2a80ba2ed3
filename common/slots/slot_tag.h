// A tag for keys of one slot: ours, which servers without a record of their own keep for us.
#pragma once

#include <string>

namespace sf {

// The first of "sf0", "sf1", ... that hashes to `slot` of `slot_num`; "" if there is no such slot.
// Names of keys that are kept for long depend on it.
std::string tag_of_slot(int slot, int slot_num);

}  // namespace sf
