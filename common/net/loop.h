// The event loop every data-plane thread runs: sockets, timers, and messages from other threads.
// Two implementations with one behaviour: uv_loop.h (libuv) and sim_loop.h (virtual time and
// network, one thread, seeded). Nothing above common/net knows which one it has, nor a descriptor.
//
// Threads: a Loop, its Streams, Listeners and timers belong to the thread that calls run(). Only
// post() and stop() may be called from other threads.
// Re-entrancy: a handler is never called from inside a call made on its stream (write, close, ...);
// it is called from the loop's turn. A handler may destroy its stream, itself included, in any call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace sf {

// What a stream tells its owner.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  // connect() succeeded. Not called for accepted streams.
  virtual void on_connected() {}

  // `unread` is every byte received and not yet consumed, in one piece. Returns how many bytes from
  // its front were consumed; the rest is presented again, longer, when more arrives. The view is
  // valid during the call only.
  virtual size_t on_data(std::string_view unread) = 0;

  // The unsent output fell below the low mark after having been over the high mark.
  virtual void on_drained() {}

  // The peer closed, an error occurred, or connect() failed or timed out. Called once, and not after
  // the owner's own close(). The stream is dead: destroy it.
  virtual void on_closed(const Status& why) = 0;
};

// One byte stream (TCP, or simulated). Destroying it closes it, dropping unsent bytes.
class Stream {
 public:
  virtual ~Stream() = default;

  // Appends to the output. All bytes written in one loop turn go out in one system call at its end.
  // Never blocks; the caller bounds the output by unsent_bytes() and on_drained().
  virtual void write(std::string_view bytes) = 0;
  // The output buffer itself, to encode into without a copy. Valid until the handler returns.
  virtual std::string& output() = 0;
  virtual size_t unsent_bytes() const = 0;  // 0 once closed
  // on_drained is called on falling below `low` after having been above `high`. Default 64 KiB, 1 MiB.
  virtual void set_marks(size_t low, size_t high) = 0;

  // While paused nothing is read (TCP back-pressure towards the peer) and on_data is not called; that
  // the peer closed is noticed after resume. After resume, bytes already received are presented on the
  // next turn.
  virtual void pause_reading() = 0;
  virtual void resume_reading() = 0;

  virtual void close() = 0;             // at once; no further handler call
  // Stops reading, closes when the output is sent (or after 10 s); no further handler call. The object
  // may be destroyed at once: here the output is sent nevertheless.
  virtual void close_after_flush() = 0;

  virtual std::string peer() const = 0;   // "127.0.0.1:4711"
  virtual std::string local() const = 0;
  virtual uint64_t bytes_in() const = 0;
  virtual uint64_t bytes_out() const = 0;
};

// An accepted connection not yet bound to a loop: may be moved to another thread and adopted there.
// Destroying it closes it.
class AcceptedSocket {
 public:
  virtual ~AcceptedSocket() = default;
  virtual std::string peer() const = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;   // stops listening
  virtual int port() const = 0;    // the real one if 0 was asked for
};

using TimerId = uint64_t;  // 0 is never a timer

class Loop {
 public:
  virtual ~Loop() = default;

  virtual int64_t now_us() const = 0;   // monotonic
  virtual int64_t wall_ms() const = 0;  // since 1970

  // Runs fn once after `delay_us` (>= 0; resolution 1 ms on libuv, rounded up).
  virtual TimerId call_after(int64_t delay_us, std::function<void()> fn) = 0;
  virtual void cancel(TimerId id) = 0;  // unknown or run ids are ignored

  // Any thread. Runs fn on the loop's thread, in the order posted.
  virtual void post(std::function<void()> fn) = 0;
  // Loop thread. Runs fn at the end of this turn, before output is sent.
  virtual void defer(std::function<void()> fn) = 0;

  // An exclusive listening socket (no SO_REUSEPORT: a second program on the port must fail, and its
  // error text says so). `bind` is an IPv4/IPv6 address or "0.0.0.0".
  virtual Result<std::unique_ptr<Listener>> listen(
      const std::string& bind, int port,
      std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept) = 0;
  virtual std::unique_ptr<Stream> adopt(std::unique_ptr<AcceptedSocket> socket,
                                        StreamHandler* handler) = 0;
  // `handler` must outlive the stream. host: numeric address or a name.
  virtual std::unique_ptr<Stream> connect(const std::string& host, int port, int64_t timeout_us,
                                          StreamHandler* handler) = 0;

  virtual void run() = 0;   // until stop()
  virtual void stop() = 0;  // any thread
};

}  // namespace sf
