#include "proxy_shim/data/backend_conn.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/worker.h"

namespace sf {

namespace {
constexpr size_t kUnsentHigh = 4UL << 20;  // beyond it, clients that send here are not read
constexpr size_t kUnsentLow = 1UL << 20;
constexpr size_t kPieceBytes = 16UL << 10;  // an unfinished reply is passed on from this size
constexpr size_t kWaitLooksAt = 1024;  // requests looked at for another client than the slow one
constexpr int64_t kOverdueGraceUs = 10'000;
constexpr int64_t kRedialFirstUs = 10'000;
constexpr int64_t kRedialMaxUs = 1'000'000;
}  // namespace

namespace {

// What stands behind `name` on a line of INFO's text; "" if there is none.
std::string_view info_line(std::string_view info, std::string_view name) {
  for (size_t at = info.find(name); at != std::string_view::npos; at = info.find(name, at + 1)) {
    if (at == 0 || info[at - 1] != '\n') continue;
    const std::string_view rest = info.substr(at + name.size());
    return rest.substr(0, rest.find_first_of("\r\n"));
  }
  return {};
}

// Which process an INFO text is of, worded as `expected` is: a Pika keeps its run id over a
// restart, and before 3.5 it has none, so there the process id is part of it (PikaServer::process).
std::string process_of(std::string_view info, std::string_view expected) {
  const std::string_view run_id = info_line(info, "run_id:");
  if (expected.find("pid ") == std::string_view::npos) return std::string(run_id);
  return cat(run_id, run_id.empty() ? "" : " ", "pid ", info_line(info, "process_id:"));
}

}  // namespace

BackendConn::BackendConn(Worker& worker, Side side, int db, BackendAddress address)
    : worker_(worker), side_(side), db_(db), address_(std::move(address)) {}

BackendConn::~BackendConn() {
  worker_.loop().cancel(timeout_timer_);
  worker_.loop().cancel(redial_timer_);
  worker_.remove_waiting(this);
  stream_.reset();
  while (head_ != nullptr) worker_.complete_with_error(pop(), "ERR slotferry-shim is stopping");
}

std::string BackendConn::name() const {
  return cat("server ", address_.address.text());
}

void BackendConn::send(std::string_view raw, Pending* record) {
  if (state_ == State::kBackoff) {
    worker_.complete_with_error(record, cat("ERR ", name(), " is not reachable: ", last_error_));
    return;
  }
  record->sent_us = worker_.now_us();
  record->side = side_;
  push(record);
  worker_.ledger().sent(*record);
  if (++in_flight_ > worker_.options().backend_requests_max) [[unlikely]]
    congested_ = true;
  if (is_waiting_) [[unlikely]]
    go_on();
  if (state_ == State::kReady) [[likely]] {
    stream_->write(raw);
    if (stream_->unsent_bytes() > kUnsentHigh) congested_ = true;
  } else {
    waiting_.append(raw);
    if (waiting_.size() > kUnsentHigh) congested_ = true;
    if (state_ == State::kIdle) dial();
  }
  if (timeout_timer_ == 0) arm_timeout(worker_.options().backend_timeout_ms * 1000);
}

void BackendConn::push(Pending* record) {
  record->next = nullptr;
  (tail_ != nullptr ? tail_->next : head_) = record;
  tail_ = record;
}

Pending* BackendConn::pop() {
  Pending* record = head_;
  head_ = record->next;
  if (head_ == nullptr) tail_ = nullptr;
  record->next = nullptr;
  --in_flight_;
  return record;
}

void BackendConn::dial() {
  state_ = State::kConnecting;
  parser_ = ReplyParser();
  stream_ = worker_.loop().connect(address_.address.host, address_.address.port,
                                   worker_.options().connect_timeout_ms * 1000, this);
  stream_->set_marks(kUnsentLow, kUnsentHigh);
}

void BackendConn::warm() {
  if (state_ == State::kIdle) dial();
}

void BackendConn::on_connected() {
  std::string hello;
  const auto ask = [&](Step step, std::initializer_list<std::string_view> argv) {
    hello += resp::request(argv);
    handshake_.push_back(step);
  };
  if (!address_.password.empty()) ask(Step::kLogin, {"AUTH", address_.password});
  if (db_ != 0) ask(Step::kLogin, {"SELECT", std::to_string(db_)});
  if (!address_.name.empty()) ask(Step::kName, {"CLIENT", "SETNAME", address_.name});
  if (!address_.run_id.empty()) ask(Step::kIdentity, {"INFO", "server"});
  if (!address_.run_id.empty() && address_.is_master) ask(Step::kRole, {"INFO", "replication"});
  if (handshake_.empty()) {
    start_ready();
    return;
  }
  state_ = State::kHandshake;
  stream_->write(hello);
}

void BackendConn::start_ready() {
  if (failures_ > 0) worker_.log().info(cat(name(), " db ", db_, " is reachable again"));
  failures_ = 0;
  state_ = State::kReady;
  if (!waiting_.empty()) stream_->write(waiting_);
  waiting_ = std::string();
  if (congested_) on_drained();
}

size_t BackendConn::read_handshake(std::string_view unread) {
  size_t used = 0;
  while (!handshake_.empty()) {
    const auto outcome = parser_.parse(unread.substr(used));
    if (outcome == ReplyParser::Outcome::kNeedMore) return used;
    const std::string_view rest = unread.substr(used);
    const bool is_reply = outcome == ReplyParser::Outcome::kReply;
    const std::string why = is_reply ? objection(handshake_[0], rest.substr(0, parser_.size()))
                                     : "it does not speak RESP";
    if (!why.empty()) {
      fail(why);
      return unread.size();
    }
    used += parser_.size();
    handshake_.pop_front();
  }
  start_ready();
  return used;
}

std::string BackendConn::objection(Step step, std::string_view reply) {
  if (step == Step::kName) return {};  // a server without names serves as well
  if (!reply.starts_with(step == Step::kLogin ? '+' : '$')) {
    return cat("it refused the login: ", printable(reply.substr(0, reply.find("\r\n")), 120));
  }
  std::string why;
  if (step == Step::kIdentity) {
    const std::string found = process_of(reply, address_.run_id);
    if (found != address_.run_id) {
      why = cat("another process is there now (run id ", printable(found, 60), ", judged was ",
                address_.run_id, ")");
    }
  } else if (step == Step::kRole && info_line(reply, "role:") == "slave") {
    why = cat("it is a replica now, of ", printable(info_line(reply, "master_host:"), 80), ":",
              printable(info_line(reply, "master_port:"), 10));
  }
  if (!why.empty() && worker_.on_stranger()) worker_.on_stranger()();
  return why;
}

size_t BackendConn::on_data(std::string_view unread) {
  worker_.touch_clock();
  last_heard_us_ = worker_.now_us();
  size_t used = 0;
  if (state_ == State::kHandshake) {
    used = read_handshake(unread);
    if (state_ != State::kReady) return used;
  }
  while (used < unread.size()) {
    if (head_ == nullptr) {
      fail("it sent a reply that nobody asked for");
      return unread.size();
    }
    const std::string_view rest = unread.substr(used);
    const auto outcome = parser_.parse(rest);
    if (outcome == ReplyParser::Outcome::kReply) [[likely]] {
      const size_t size = parser_.size();
      if (head_->skip > 0) [[unlikely]] {
        --head_->skip;
      } else {
        answer(rest.substr(0, size));
      }
      used += size;
      continue;
    }
    if (outcome == ReplyParser::Outcome::kError) {
      fail(cat("its reply is not RESP: ", parser_.error()));
      return unread.size();
    }
    if (parser_.scanned() >= kPieceBytes) used += pass_front(rest.substr(0, parser_.scanned()));
    break;
  }
  if (congested_) [[unlikely]]
    on_drained();
  if (retired_ && head_ == nullptr) worker_.remove_retired_later();
  return used;
}

size_t BackendConn::pass_front(std::string_view scanned) {
  if (head_->skip > 0) return 0;
  if (!worker_.pass_piece(head_, scanned)) {
    if (scanned.size() > worker_.options().reply_bytes_max) {
      worker_.give_up(head_, scanned.size());
    } else if (serves_one_client()) {
      wait_for_client();
    }
    return 0;
  }
  parser_.drop_prefix(scanned.size());
  return scanned.size();
}

// Others' requests behind the slow client's are never made to wait for it (DESIGN 6.5).
bool BackendConn::serves_one_client() const {
  if (head_->is_part || head_->client == nullptr) return false;
  size_t looked = 0;
  for (const Pending* record = head_->next; record != nullptr; record = record->next) {
    if (record->client != head_->client || ++looked > kWaitLooksAt) return false;
  }
  return true;
}

void BackendConn::wait_for_client() {
  if (is_waiting_ || !head_->client->is_at_head(head_)) return;
  is_waiting_ = true;
  stream_->pause_reading();
  worker_.add_waiting(this);
}

void BackendConn::go_on() {
  if (!is_waiting_) return;
  is_waiting_ = false;
  worker_.remove_waiting(this);
  last_heard_us_ = worker_.now_us();
  if (stream_ != nullptr) stream_->resume_reading();
}

void BackendConn::answer(std::string_view reply) {
  Pending* record = pop();
  worker_.ledger().answered(*record);
  worker_.complete(record, reply);
}

void BackendConn::on_drained() {
  if (!congested_) return;
  const size_t unsent = state_ == State::kReady ? stream_->unsent_bytes() : waiting_.size();
  const bool is_free = in_flight_ * 2 <= worker_.options().backend_requests_max;
  if (unsent > kUnsentLow || !is_free) return;
  congested_ = false;
  worker_.resume_clients(kPauseBackend);
}

void BackendConn::on_closed(const Status& why) {
  fail(state_ == State::kReady ? "it closed the connection" : why.text());
}

void BackendConn::fail(const std::string& why) {
  const bool was_sent = state_ == State::kReady;
  ++breaks_;
  is_waiting_ = false;
  worker_.remove_waiting(this);
  last_error_ = why;
  // A handler may not run on a stream that is being torn down by its own call: dropping it closes
  // it.
  stream_.reset();
  state_ = State::kBackoff;
  waiting_ = std::string();
  handshake_.clear();
  is_overdue_ = false;
  parser_ = ReplyParser();
  if (failures_ == 0 || head_ != nullptr) {
    worker_.log().warning(cat(name(), " db ", db_, ": ", why));
  }
  const std::string text =
      was_sent ? cat("ERR ", name(), ": ", why, "; the command may or may not have been executed")
               : cat("ERR ", name(), " is not reachable: ", why);
  Pending* list = head_;
  head_ = tail_ = nullptr;
  in_flight_ = 0;
  while (list != nullptr) {
    Pending* record = list;
    list = record->next;
    record->next = nullptr;
    was_sent ? worker_.ledger().unanswered(*record) : worker_.ledger().answered(*record);
    if (was_sent) worker_.notes().unanswered(*record);
    worker_.complete_with_error(record, text);
  }
  back_off();
  if (retired_) worker_.remove_retired_later();
  if (congested_) on_drained();
}

// A lost connection is dialled anew at once when the next request comes; one that could not be made
// is given time, and requests are refused meanwhile rather than queued.
void BackendConn::back_off() {
  const int64_t delay =
      failures_ == 0 ? 0 : std::min(kRedialMaxUs, kRedialFirstUs << std::min(failures_ - 1, 10));
  ++failures_;
  if (retired_) return;
  if (delay == 0) {
    state_ = State::kIdle;
    return;
  }
  redial_timer_ = worker_.loop().call_after(delay, [this] {
    redial_timer_ = 0;
    state_ = State::kIdle;
    dial();
  });
}

void BackendConn::arm_timeout(int64_t delay_us) {
  timeout_timer_ = worker_.loop().call_after(delay_us, [this] {
    timeout_timer_ = 0;
    check_timeout();
  });
}

void BackendConn::check_timeout() {
  if (head_ == nullptr) {
    is_overdue_ = false;
    return;
  }
  worker_.touch_clock();
  const int64_t limit = worker_.options().backend_timeout_ms * 1000;
  if (is_waiting_) {  // for the client, not for the server
    arm_timeout(limit);
    return;
  }
  const int64_t age = worker_.now_us() - std::max(head_->sent_us, last_heard_us_);
  if (age < limit) {
    is_overdue_ = false;
    arm_timeout(limit - age);
  } else if (!is_overdue_) {
    // If this process itself stood still, the answer may be in the socket: read first.
    is_overdue_ = true;
    arm_timeout(kOverdueGraceUs);
  } else {
    fail(cat("no answer within ", limit / 1000, " ms"));
  }
}

void BackendConn::leave() {
  bool may_stay = state_ == State::kReady;  // else nothing was asked yet
  for (const Pending* record = head_; may_stay && record != nullptr; record = record->next) {
    may_stay = !record->is_write;
  }
  retire();
  if (head_ != nullptr && !may_stay) fail("another server has taken its place");
}

void BackendConn::retire() {
  retired_ = true;
  worker_.loop().cancel(redial_timer_);
  redial_timer_ = 0;
  if (head_ == nullptr) worker_.remove_retired_later();
}

}  // namespace sf
