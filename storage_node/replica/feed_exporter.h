// Reads slots under a snapshot and hands them on as SST files, on a thread of its own: reading a
// slot takes as long as it takes, and no client's loop may wait for it. At most kInFlight pieces
// are on their way to the socket (about kChunkBytes each); the thread waits for the others to
// leave.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "storage_node/engine/engine.h"
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
  FeedExporter(Engine& engine, HistoryLog& histories, size_t bytes_per_second,
               std::function<void(int slot, Engine::SstChunk)> chunk,
               std::function<void(Done)> done);
  ~FeedExporter();  // waits for the piece under way

  void start(int slot);
  void stop();  // at the next piece; nothing is handed on after it
  void release();

 private:
  void work();
  Done export_one(int slot);
  Status hand_on(int slot, Engine::SstChunk chunk);

  Engine& engine_;
  HistoryLog& histories_;
  const size_t bytes_per_second_;
  const std::function<void(int, Engine::SstChunk)> chunk_;
  const std::function<void(Done)> done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<int> queue_;
  int in_flight_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sf
