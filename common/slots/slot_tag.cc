#include "common/slots/slot_tag.h"

#include "common/base/strings.h"
#include "common/slots/slot_hash.h"

namespace sf {

std::string tag_of_slot(int slot, int slot_num) {
  if (slot_num <= 0 || slot < 0 || slot >= slot_num) return "";
  for (uint64_t n = 0;; ++n) {
    std::string tag = cat("sf", n);
    if (static_cast<int>(crc32_ieee(tag) % static_cast<uint32_t>(slot_num)) == slot) return tag;
  }
}

}  // namespace sf
