#include "storage_node/replica/feed_exporter.h"

#include <algorithm>
#include <chrono>

#include "common/base/strings.h"

namespace sf {

FeedExporter::FeedExporter(Engine& engine, HistoryLog& histories, std::shared_ptr<CopyRate> rate,
                           std::function<void(int, Engine::SstChunk)> chunk,
                           std::function<void(Done)> done)
    : engine_(engine),
      histories_(histories),
      rate_(std::move(rate)),
      chunk_(std::move(chunk)),
      done_(std::move(done)),
      thread_([this] { work(); }) {}

FeedExporter::~FeedExporter() {
  stop();
  thread_.join();
}

void FeedExporter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
}

void FeedExporter::start(int slot) {
  slot_ = slot;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(slot);
  }
  wake_.notify_all();
}

void FeedExporter::release() {
  {
    const std::lock_guard lock(mutex_);
    --in_flight_;
  }
  wake_.notify_all();
}

void FeedExporter::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    int slot = queue_.front();
    queue_.pop_front();
    lock.unlock();
    Done done = export_one(slot);
    lock.lock();
    if (stopping_) return;
    lock.unlock();
    done_(std::move(done));
    lock.lock();
  }
}

FeedExporter::Done FeedExporter::export_one(int slot) {
  ReadView view = engine_.snapshot();
  // After the snapshot: a history that began meanwhile names the same state, an older name might
  // not.
  Position at{histories_.current(), view.seq()};
  if (Status s = note_ahead(slot, view, &at); !s) return {slot, {}, 0, s};
  working_since_us_ = rate_->now_us();
  Status status = engine_.export_slot(
      slot, view, kChunkBytes,
      [&](Engine::SstChunk chunk) { return hand_on(slot, std::move(chunk)); },
      [this] { return rest(); });
  if (status) status = rest();
  return {slot, std::move(at), engine_.next_version(), std::move(status)};
}

// A full replica's slot that was fetched by itself is ahead of the log around it, as its record in
// the same view says; called less, batches it has already would come to the copy once more.
Status FeedExporter::note_ahead(int slot, const ReadView& view, Position* at) {
  auto full = engine_.get(Cf::kSys, kFullRecord, &view);
  if (!full) return full.status();
  if (!*full) return Status::ok();
  auto record = decode_full(**full);
  if (!record) return record.status();
  auto ahead = engine_.get(Cf::kSys, ahead_record_name(slot), &view);
  if (!ahead) return ahead.status();
  if (!record->mirror || !*ahead) return Status::ok();
  auto position = decode_position(**ahead);
  if (!position) return position.status();
  if (position->history.empty()) {
    return Status::unavailable(cat("slot ", slot, " is being stored here itself"));
  }
  at->seq = std::max(at->seq, position->seq);
  return Status::ok();
}

Status FeedExporter::hand_on(int slot, Engine::SstChunk chunk) {
  if (Status s = rest(); !s) return s;
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stopping_ || in_flight_ < kInFlight; });
  const auto pause = std::chrono::microseconds(rate_->take(chunk.bytes.size()));
  if (pause.count() > 0) wake_.wait_for(lock, pause, [this] { return stopping_; });
  if (stopping_) return Status::unavailable("the replica is gone");
  ++in_flight_;
  lock.unlock();
  working_since_us_ = rate_->now_us();
  chunk_(slot, std::move(chunk));
  return Status::ok();
}

Status FeedExporter::rest() {
  const std::chrono::microseconds pause(rate_->worked(rate_->now_us() - working_since_us_));
  if (pause.count() > 0) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, pause, [this] { return stopping_; });
    if (stopping_) return Status::unavailable("the replica is gone");
  }
  working_since_us_ = rate_->now_us();
  return Status::ok();
}

}  // namespace sf
