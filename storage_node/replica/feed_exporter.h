// Reads one slot at a time under a snapshot and hands it on as SST files, on a thread of its own:
// reading a slot takes as long as it takes, and no client's loop may wait for it. At most kInFlight
// pieces are on their way to the socket (about kChunkBytes each); the thread waits for the others
// to leave.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "storage_node/engine/engine.h"
#include "storage_node/replica/copy_rate.h"
#include "storage_node/replica/history_log.h"

namespace sf {

class FeedExporter {
 public:
  static constexpr size_t kChunkBytes = 4UL << 20;
  static constexpr int kInFlight = 2;

  struct Done {
    int slot = 0;
    Position at;
    uint64_t version = 0;
    Status status;
  };
  // Both are called on the exporter's thread; they post to the feed's loop. For each chunk handed
  // on, release() must be called once.
  FeedExporter(Engine& engine, HistoryLog& histories, std::shared_ptr<CopyRate> rate,
               std::function<void(int slot, Engine::SstChunk)> chunk,
               std::function<void(Done)> done);
  ~FeedExporter();  // waits for the piece under way

  // The three of the feed's loop:
  void start(int slot);  // idle() only
  bool idle() const { return slot_ < 0; }
  void finished(int slot) {
    if (slot_ == slot) slot_ = -1;
  }

  void stop();  // at the next piece; nothing is handed on after it
  void release();

 private:
  void work();
  Done export_one(int slot);
  Status rest();  // after working since working_since_us_
  Status note_ahead(int slot, const ReadView& view, Position* at);
  Status hand_on(int slot, Engine::SstChunk chunk);

  Engine& engine_;
  HistoryLog& histories_;
  const std::shared_ptr<CopyRate> rate_;
  const std::function<void(int, Engine::SstChunk)> chunk_;
  const std::function<void(Done)> done_;
  int slot_ = -1;                 // the feed's loop only
  int64_t working_since_us_ = 0;  // the exporter's thread only
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<int> queue_;
  int in_flight_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sf
