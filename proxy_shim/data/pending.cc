#include "proxy_shim/data/pending.h"

namespace sf {

namespace {
constexpr size_t kKeptBytes =
    4096;  // a record keeps a reply buffer up to this size for its next use
}

void PendingPool::give(Pending* record) {
  std::string bytes = std::move(record->bytes);
  std::vector<uint16_t> more = std::move(record->more_slots);
  *record = Pending{};
  if (bytes.capacity() <= kKeptBytes) {
    bytes.clear();
    record->bytes = std::move(bytes);
  }
  if (more.capacity() <= kKeptBytes / sizeof(uint16_t)) {
    more.clear();
    record->more_slots = std::move(more);
  }
  record->next = free_;
  free_ = record;
  in_use_.add(-1);
}

void PendingPool::grow() {
  blocks_.push_back(std::make_unique<Pending[]>(kBlock));
  for (size_t i = kBlock; i-- > 0;) {
    Pending* record = &blocks_.back()[i];
    record->next = free_;
    free_ = record;
  }
}

}  // namespace sf
