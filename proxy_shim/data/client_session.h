// One connection of a proxy or client: reads requests, keeps the order of replies, and is slowed
// rather than buffered for (I5, I9).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/loop.h"
#include "common/resp/request_parser.h"
#include "proxy_shim/data/hold_queue.h"
#include "proxy_shim/data/local_commands.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class BackendConn;
class Worker;
struct Transaction;
struct Watch;
struct CommandRule;
struct CommandSpec;

// Why a client is not read at the moment; a bit each.
enum PauseReason : uint8_t {
  kPauseOutput = 1U << 0,    // it does not read its replies
  kPauseRequests = 1U << 1,  // too many unanswered requests, or too many bytes expected for them
  kPauseBackend = 1U << 2,   // a server does not take requests as fast as they come
  kPauseHold = 1U << 3,      // no room for another held request
  kPauseEnd = 1U << 4,       // no more requests will be taken
  kPauseTurn = 1U << 5,      // WATCH, or EXEC after it, is to be answered first
};

class ClientSession final : public StreamHandler {
 public:
  ClientSession(Worker& worker, uint64_t id);
  ~ClientSession() override;
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  void open(std::unique_ptr<AcceptedSocket> socket);
  uint64_t id() const { return state_.id; }
  int db() const { return state_.db; }

  // Puts a record at the end of the order of replies.
  void enqueue(Pending* record);
  // The reply of a record that was enqueued; consumes the record.
  void reply(Pending* record, std::string_view bytes);
  void reply_error(Pending* record, std::string_view text);
  // The front of a long reply. False if it has to wait for the rest: not at the head, or the client
  // is slow.
  bool pass_piece(Pending* record, std::string_view piece);

  void pause(PauseReason reason);
  void resume(PauseReason reason);

  // Of a WATCH: what was watched did not change its owner, nor was its connection lost.
  bool watch_holds() const;
  BackendConn* watch_conn() const;
  // What it watched is watched no more: EXEC answers nil.
  std::unique_ptr<BackendConn> give_watch_conn();

  bool is_at_head(const Pending* record) const { return record == head_; }
  // Ends the connection, which does not take the reply it is owed (`collected` bytes of it here).
  void close_slow(size_t collected);

  const SessionHolds* holds() const { return holds_.get(); }
  void add_hold(const Pending& held);
  void clear_holds() { holds_.reset(); }

  // Closed, and nothing left to send.
  bool is_flushed() const { return is_closed_ && stream_->unsent_bytes() == 0; }

  // Takes no more requests and closes when the last one is answered and sent.
  void finish();

  size_t on_data(std::string_view unread) override;
  void on_drained() override;
  void on_closed(const Status& why) override;

 private:
  bool handle(const Request& request);
  bool forward_straight(const CommandRule& rule, const Request& request);
  bool handle_special(const CommandSpec& spec, const CommandRule& rule, const Request& request);
  bool handle_unknown(const Request& request);
  bool handle_migration(const CommandSpec& spec, const Request& request);
  bool forward(const CommandSpec* spec, const Request& request);
  // client_transactions.cc. False: the command is none of a transaction of data.
  bool handle_transaction(const CommandSpec& spec, const CommandRule& rule, const Request& request);
  void queue_data(const CommandSpec& spec, const CommandRule& rule, const Request& request);
  bool execute();
  void watch(const CommandSpec& spec, const Request& request);
  void end_watch();
  void end_transaction();
  void run_local(const CommandRule& rule, const Request& request);
  void queue_in_multi(const CommandSpec& spec, const CommandRule& rule, const Request& request);
  void protocol_error();

  void answer(std::string_view bytes);  // to the request at hand
  void emit(const Pending& record, std::string_view bytes);
  void pop_head();
  void flush_done();
  bool has_room() const;
  bool count_input(size_t left);
  size_t owed_bytes() const { return stream_->unsent_bytes() + parked_bytes_; }
  void stop_listening();
  void check_output();
  void close_now();
  void release_records();
  void end_if_done();

  Worker& worker_;
  SessionState state_;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  Pending* head_ = nullptr;
  Pending* tail_ = nullptr;
  size_t queued_ = 0;          // records in the order of replies
  size_t parked_bytes_ = 0;    // replies that wait for an earlier one
  size_t counted_output_ = 0;  // of owed_bytes(), as told to the worker
  size_t counted_input_ = 0;   // of an unfinished request, as told to the worker
  size_t reply_estimate_x16_;  // moving average of the size of a reply, times 16
  uint8_t pause_ = 0;
  bool is_deaf_ = false;  // the stream is paused
  bool is_closed_ = false;
  bool retry_ = false;  // the request at hand is to be brought again
  std::unique_ptr<SessionHolds> holds_;
  std::unique_ptr<Transaction> transaction_;  // null: nothing queued since MULTI
  std::unique_ptr<Watch> watch_;
};

}  // namespace sf
