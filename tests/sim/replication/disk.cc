#include "tests/sim/replication/disk.h"

#include <algorithm>

namespace sf::sim {

void Disk::write(Batch batch, bool synced) {
  batch(image_);
  tail_.push_back(std::move(batch));
  if (synced) sync();
}

void Disk::sync() {
  for (const Batch& batch : tail_) batch(durable_);
  tail_.clear();
}

void Disk::lose(size_t batches) {
  tail_.resize(tail_.size() - std::min(batches, tail_.size()));
  sync();
  image_ = durable_;
}

void Disk::purge(uint64_t first) {
  for (Image* image : {&image_, &durable_}) {
    if (first <= image->first) continue;
    uint64_t gone = std::min<uint64_t>(first - image->first, image->log.size());
    image->log.erase(image->log.begin(), image->log.begin() + static_cast<std::ptrdiff_t>(gone));
    image->first += gone;
  }
}

}  // namespace sf::sim
