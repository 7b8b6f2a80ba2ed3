#include "proxy_shim/data/client_session.h"

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/migration_commands.h"
#include "proxy_shim/data/worker.h"

namespace sf {

namespace {
// Until a client's replies are known, as large as this each: limits what a first pipeline of large
// reads brings in.
constexpr size_t kFirstReplyEstimate = 128UL << 10;
}  // namespace

ClientSession::ClientSession(Worker& worker, uint64_t id)
    : worker_(worker), reply_estimate_x16_(kFirstReplyEstimate * 16) {
  state_.id = id;
  state_.is_authenticated = worker.options().password.empty();
}

ClientSession::~ClientSession() {
  release_records();
}

void ClientSession::open(std::unique_ptr<AcceptedSocket> socket) {
  state_.peer = socket->peer();
  stream_ = worker_.loop().adopt(std::move(socket), this);
  // Half the limit, so that going over the limit always passes the mark that on_drained() waits
  // for.
  const size_t limit = worker_.options().client_output_bytes_max;
  stream_->set_marks(limit / 4, limit / 2);
}

size_t ClientSession::on_data(std::string_view unread) {
  worker_.touch_clock();
  size_t used = 0;
  int64_t requests = 0;
  while (pause_ == 0) {
    if (!has_room()) {
      pause(kPauseRequests);
      break;
    }
    Request& request = worker_.scratch_request();
    const auto outcome = parser_.parse(unread.substr(used), &request);
    if (outcome == RequestParser::Outcome::kRequest) [[likely]] {
      const size_t size = parser_.consumed();
      if (!handle(request)) {
        pause(kPauseHold);
        break;
      }
      if (is_closed_) return unread.size();
      used += size;
      ++requests;
      continue;
    }
    if (outcome == RequestParser::Outcome::kError) {
      protocol_error();
      return unread.size();
    }
    used += parser_.consumed();
    break;
  }
  worker_.stats().requests.add(requests);
  worker_.stats().bytes_in.add(static_cast<int64_t>(used));
  return used;
}

bool ClientSession::has_room() const {
  if (queued_ == 0) return true;
  const DataPlaneOptions& limits = worker_.options();
  return queued_ < limits.client_requests_max &&
         queued_ * (reply_estimate_x16_ / 16) <= limits.client_output_bytes_max;
}

bool ClientSession::handle(const Request& request) {
  const CommandSpec* spec = find_command(request.argv[0]);
  if (spec == nullptr) return handle_unknown(request);
  if (!spec->arity_ok(request.argv.size())) {
    std::string out;
    wrong_arity(out, spec->name);
    state_.multi_failed = true;
    answer(out);
    return true;
  }
  const CommandRule& rule = worker_.commands().rule(*spec);
  const bool is_plain = state_.is_authenticated && !state_.in_multi;
  if (is_plain && rule.single_key != 0 && !request.is_inline) [[likely]] {
    if (forward_straight(rule, request)) return true;
  }
  return handle_special(*spec, rule, request);
}

// The hot path: one key, nothing held, owner known.
bool ClientSession::forward_straight(const CommandRule& rule, const Request& request) {
  const int slot = slot_of(request.argv[rule.single_key]);
  const uint8_t flags = worker_.routes().flags(slot);
  if ((flags & rule.blocked_by) != 0 || holds_ != nullptr) return false;
  state_.carries_data = true;
  Pending* record = worker_.pool().take();
  record->started_us = worker_.now_us();
  record->slot = static_cast<uint16_t>(slot);
  record->db = static_cast<uint8_t>(state_.db);
  record->is_write = rule.is_write;
  enqueue(record);
  BackendConn& backend = worker_.backend(Routes::side_of(flags), state_.db);
  backend.send(request.raw, record);
  if (backend.is_congested()) pause(kPauseBackend);
  return true;
}

void ClientSession::protocol_error() {
  std::string out;
  resp::error(out, cat("ERR Protocol error: ", parser_.error()));
  answer(out);
  finish();
}

void ClientSession::answer(std::string_view bytes) {
  if (bytes.starts_with('-')) worker_.stats().errors.add();
  if (head_ == nullptr) {
    stream_->write(bytes);
    worker_.stats().bytes_out.add(static_cast<int64_t>(bytes.size()));
    check_output();
    return;
  }
  Pending* record = worker_.pool().take();
  record->started_us = worker_.now_us();
  record->bytes.assign(bytes);
  record->is_done = true;
  parked_bytes_ += bytes.size();
  enqueue(record);
  check_output();
}

void ClientSession::enqueue(Pending* record) {
  record->client = this;
  record->client_next = nullptr;
  (tail_ != nullptr ? tail_->client_next : head_) = record;
  tail_ = record;
  ++queued_;
}

void ClientSession::reply(Pending* record, std::string_view bytes) {
  reply_estimate_x16_ += bytes.size() - reply_estimate_x16_ / 16;
  if (record != head_) {
    record->bytes.clear();
    if (record->wrapped) record->bytes = kWrapperPrefix;
    record->bytes.append(bytes);
    record->is_done = true;
    parked_bytes_ += record->bytes.size();
  } else {
    emit(*record, bytes);
    pop_head();
    if (head_ != nullptr && head_->is_done) flush_done();
  }
  if ((pause_ & kPauseRequests) != 0 && queued_ * 2 <= worker_.options().client_requests_max &&
      has_room()) {
    resume(kPauseRequests);
  }
  check_output();
  end_if_done();
}

void ClientSession::reply_error(Pending* record, std::string_view text) {
  worker_.stats().errors.add();
  if (record->partly_passed) {
    // The client has the front of another reply; only a closed connection tells it the truth.
    close_now();
    worker_.pool().give(record);
    return;
  }
  std::string out;
  resp::error(out, text);
  reply(record, out);
}

bool ClientSession::pass_piece(Pending* record, std::string_view piece) {
  if (record != head_ || owed_bytes() > worker_.options().client_output_bytes_max) return false;
  emit(*record, piece);
  record->partly_passed = true;
  check_output();
  return true;
}

void ClientSession::emit(const Pending& record, std::string_view bytes) {
  if (record.wrapped && !record.partly_passed) stream_->write(kWrapperPrefix);
  stream_->write(bytes);
  worker_.stats().bytes_out.add(static_cast<int64_t>(bytes.size()));
}

void ClientSession::pop_head() {
  Pending* record = head_;
  head_ = record->client_next;
  if (head_ == nullptr) tail_ = nullptr;
  --queued_;
  worker_.latency().record(worker_.now_us() - record->started_us);
  worker_.pool().give(record);
}

void ClientSession::flush_done() {
  while (head_ != nullptr && head_->is_done) {
    parked_bytes_ -= head_->bytes.size();
    stream_->write(head_->bytes);
    worker_.stats().bytes_out.add(static_cast<int64_t>(head_->bytes.size()));
    pop_head();
  }
}

// Over the limit the client is not read; replies of what it asked before are kept within the
// worker's budget for slow clients, and beyond that it is closed.
void ClientSession::check_output() {
  if (is_closed_) return;
  const size_t limit = worker_.options().client_output_bytes_max;
  const size_t owed = owed_bytes();
  if (owed > limit) {
    pause(kPauseOutput);
    worker_.change_slow_bytes(static_cast<int64_t>(owed) - static_cast<int64_t>(slow_bytes_));
    slow_bytes_ = owed;
    if (worker_.is_over_slow_budget()) close_slow();
  } else if ((pause_ & kPauseOutput) != 0 && owed < limit / 2) {
    worker_.change_slow_bytes(-static_cast<int64_t>(slow_bytes_));
    slow_bytes_ = 0;
    resume(kPauseOutput);
  }
}

void ClientSession::close_slow() {
  worker_.log().warning(cat("client ", state_.peer, " is closed: it does not read, and ",
                            owed_bytes(), " bytes of replies wait for it"));
  close_now();
}

void ClientSession::on_drained() {
  check_output();
}

void ClientSession::pause(PauseReason reason) {
  if (pause_ == 0 && !is_closed_) stream_->pause_reading();
  pause_ |= reason;
}

void ClientSession::resume(PauseReason reason) {
  const bool was_paused = pause_ != 0;
  pause_ &= static_cast<uint8_t>(~reason);
  if (was_paused && pause_ == 0 && !is_closed_) stream_->resume_reading();
}

void ClientSession::add_hold(const Pending& held) {
  if (holds_ == nullptr) holds_ = std::make_unique<SessionHolds>();
  holds_->change(held, 1);
}

void ClientSession::finish() {
  pause(kPauseEnd);
  end_if_done();
}

void ClientSession::end_if_done() {
  if (is_closed_ || (pause_ & kPauseEnd) == 0 || head_ != nullptr) return;
  is_closed_ = true;
  stream_->close_after_flush();
  worker_.remove_client_when_flushed(id());
}

void ClientSession::on_closed(const Status&) {
  close_now();
}

void ClientSession::close_now() {
  if (is_closed_) return;
  is_closed_ = true;
  pause_ |= kPauseEnd;
  stream_->close();
  release_records();
  worker_.remove_client_later(id());
}

void ClientSession::release_records() {
  worker_.change_slow_bytes(-static_cast<int64_t>(slow_bytes_));
  slow_bytes_ = 0;
  holds_.reset();
  Pending* list = head_;
  head_ = tail_ = nullptr;
  queued_ = 0;
  while (list != nullptr) {
    Pending* record = list;
    list = record->client_next;
    record->client = nullptr;
    record->client_next = nullptr;
    if (record->is_held) {
      worker_.holds().remove(record);
      worker_.pool().give(record);
    } else if (record->is_done) {
      worker_.pool().give(record);
    }
  }
}

}  // namespace sf
