// One client connection: bytes in, requests out, replies in order. Belongs to one loop's thread,
// from its making to its end; everything here is called on that thread unless it says otherwise.
//
// Limits: past kOutputHigh unsent bytes no further request of the client is read until it has read
// enough of them; so a client that does not read costs kOutputHigh plus one reply.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/loop.h"
#include "common/resp/request_parser.h"
#include "storage_node/server/pubsub.h"

namespace sf {

class ClientSession;
class Dispatcher;
class SessionHub;
struct MultiState;

// Stands between a stream and who listens to it now, so that a connection can change hands. Must
// outlive the stream.
class HandlerSwitch : public StreamHandler {
 public:
  void set_target(StreamHandler* target) { target_ = target; }
  size_t on_data(std::string_view unread) override { return target_->on_data(unread); }
  void on_drained() override { target_->on_drained(); }
  void on_closed(const Status& why) override { target_->on_closed(why); }

 private:
  StreamHandler* target_ = nullptr;
};

// A connection handed over by ClientSession::take_over. The new owner sets the handler's target
// before it returns to the loop, and destroys the stream before the handler (members in this order
// do).
struct TakenConnection {
  std::unique_ptr<HandlerSwitch> handler;
  std::unique_ptr<Stream> stream;
  std::string unread;  // received, not consumed; on_data will not show it again
  std::string peer;
};

// The later answer of a blocked command. Copyable; usable from any thread; harmless if the client
// is gone or has been answered already (the first reply wins).
class BlockedReply {
 public:
  void send(std::string reply) const;    // exactly one RESP reply
  Loop& loop() const { return *loop_; }  // the session's: for timers that end the wait

 private:
  friend class ClientSession;
  BlockedReply(SessionHub* hub, Loop* loop, uint64_t session, uint64_t block)
      : hub_(hub), loop_(loop), session_(session), block_(block) {}
  SessionHub* hub_;
  Loop* loop_;
  uint64_t session_;
  uint64_t block_;
};

class ClientSession : public StreamHandler {
 public:
  static constexpr size_t kOutputHigh = 1UL << 20;
  static constexpr size_t kOutputLow = 256UL << 10;

  ClientSession(SessionHub& hub, Dispatcher& dispatcher, uint64_t id, bool authenticated);
  ~ClientSession() override;
  void start(std::unique_ptr<AcceptedSocket> socket);

  // ---- for command handlers
  // The running command answers later: the handler appends nothing to ctx.out, and no further
  // request of this connection runs before the reply. Not inside EXEC (can_block()).
  BlockedReply block();
  bool can_block() const { return !in_exec_; }
  // The running command takes the connection away: fn is called at the end of this loop turn with
  // it, and the session ends. What the handler appended to ctx.out is sent first.
  void take_over(std::function<void(TakenConnection)> fn);
  void close_after_reply() { closing_ = true; }

  uint64_t id() const { return id_; }
  Loop& loop() const;
  std::string peer() const;
  std::string local() const;
  int db() const { return db_; }
  void set_db(int db) { db_ = db; }
  bool authenticated() const { return authenticated_; }
  void set_authenticated(bool on) { authenticated_ = on; }
  bool verify_reads() const { return verify_reads_; }  // PKCLUSTER VERIFYREAD
  void set_verify_reads(bool on) { verify_reads_ = on; }
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  enum class ReplyMode { kOn, kOff, kSkipNext };  // CLIENT REPLY
  void set_reply_mode(ReplyMode mode) { reply_mode_ = mode; }
  MultiState* multi() { return multi_.get(); }  // null: not in MULTI and nothing watched
  MultiState& make_multi();
  void drop_multi();
  PubSub::Subscriber* subscriber() { return subscriber_.get(); }  // null: never subscribed
  PubSub::Subscriber& make_subscriber(PubSub& pubsub);
  void drop_subscriber() { subscriber_.reset(); }
  // In subscriber mode hardly any command is allowed.
  bool subscribed() const { return subscriber_ && subscriber_->count() > 0; }
  // Writes what the client did not ask for; one that has more than `unsent_max` unread is cut.
  void push(std::string_view bytes, size_t unsent_max);
  void set_in_exec(bool on) { in_exec_ = on; }
  // CLIENT LIST's line.
  std::string describe(int64_t now_us) const;
  void note_command(std::string_view name) { last_command_.assign(name); }
  void sync_before_replies();  // see SessionHub
  // The log's end after this client's last write, for WAIT.
  void note_write(uint64_t seq) { last_write_ = seq; }
  uint64_t last_write() const { return last_write_; }
  void kill();                 // closes now, or after the reply if it is this session's own command

  // ---- StreamHandler
  size_t on_data(std::string_view unread) override;
  void on_drained() override;
  void on_closed(const Status& why) override;

 private:
  friend class SessionHub;
  friend class BlockedReply;
  void run(const Request& request);
  void unblock(uint64_t block, const std::string& reply);
  void hand_over(std::string_view unread);

  SessionHub& hub_;
  Dispatcher& dispatcher_;
  const uint64_t id_;
  std::unique_ptr<HandlerSwitch> switch_;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  Request request_;
  int db_ = 0;
  bool authenticated_;
  bool verify_reads_ = false;
  bool closing_ = false;
  bool in_exec_ = false;
  bool running_ = false;
  bool paused_ = false;
  uint64_t blocked_ = 0;  // number of the block that is waited for; 0: none
  uint64_t next_block_ = 1;
  uint64_t last_write_ = 0;
  ReplyMode reply_mode_ = ReplyMode::kOn;
  std::string skipped_;  // replies the client does not want
  std::string name_;
  std::string last_command_;
  int64_t since_us_ = 0;
  int64_t last_us_ = 0;
  std::unique_ptr<MultiState> multi_;
  std::unique_ptr<PubSub::Subscriber> subscriber_;
  std::function<void(TakenConnection)> take_over_;
};

}  // namespace sf
