#include "proxy_shim/data/client_session.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/migration_commands.h"
#include "proxy_shim/data/transaction.h"
#include "proxy_shim/data/worker.h"

namespace sf {

namespace {
// A client that owes less, or whose unfinished request is shorter, is not counted in the totals.
constexpr size_t kCountedOutput = 16UL << 10;
constexpr size_t kCountedInput = 64UL << 10;
constexpr size_t kLargeReply = 128UL << 10;
}  // namespace

ClientSession::ClientSession(Worker& worker, uint64_t id)
    : worker_(worker), reply_estimate_x16_(worker.large_reply() * 16) {
  state_.id = id;
  state_.is_authenticated = worker.options().password.empty();
}

ClientSession::~ClientSession() {
  release_records();
}

void ClientSession::open(std::unique_ptr<AcceptedSocket> socket) {
  state_.peer = socket->peer();
  stream_ = worker_.loop().adopt(std::move(socket), this);
  // Whoever is counted has passed the mark that on_drained() waits for.
  const size_t high = std::min(kCountedOutput, worker_.options().client_output_bytes_max / 2);
  stream_->set_marks(high / 4, high);
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
        if (pause_ == 0) pause(kPauseHold);
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
  const size_t left = unread.size() - used;
  if (pause_ != 0 && left > kCountedInput) stop_listening();
  if ((left > kCountedInput || counted_input_ > 0) && !count_input(left)) return unread.size();
  return used;
}

bool ClientSession::has_room() const {
  if (queued_ == 0) return true;
  const DataPlaneOptions& limits = worker_.options();
  return queued_ < limits.client_requests_max &&
         queued_ * (reply_estimate_x16_ / 16) <= limits.client_output_bytes_max &&
         !worker_.is_over_request_budget();
}

// False if there is no room for an unfinished request: its sender goes.
bool ClientSession::count_input(size_t left) {
  const size_t counted = left > kCountedInput ? left : 0;
  const int64_t by = static_cast<int64_t>(counted) - static_cast<int64_t>(counted_input_);
  counted_input_ = counted;
  if (worker_.change_input_bytes(by) || by <= 0) return true;
  worker_.log().warning(cat("client ", state_.peer, " is closed: ", left,
                            " bytes of its request are here, it is not whole yet, and all such "
                            "requests together are larger than input-bytes-max"));
  std::string out;
  resp::error(out, "ERR no room for a request of this size now, try again later");
  answer(out);
  // Its bytes are dropped now, not when it has read this: others may come through.
  worker_.change_input_bytes(-static_cast<int64_t>(std::exchange(counted_input_, 0)));
  finish();
  return false;
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
  if (!rule.is_write && worker_.checks().is_special()) [[unlikely]]
    return false;
  state_.carries_data = true;
  BackendConn& backend = worker_.backend(Routes::side_of(flags), state_.db);
  if (backend.is_congested()) [[unlikely]]
    return false;
  Pending* record = worker_.pool().take();
  record->started_us = worker_.now_us();
  record->slot = static_cast<uint16_t>(slot);
  record->db = static_cast<uint8_t>(state_.db);
  record->is_write = rule.is_write;
  enqueue(record);
  backend.send(request.raw, record);
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
  if (bytes.size() > kLargeReply) [[unlikely]]
    worker_.saw_large_reply(bytes.size());
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
  if ((pause_ & kPauseTurn) != 0 && queued_ == 0) resume(kPauseTurn);
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
  if (record != head_ || owed_bytes() > worker_.client_output_limit()) return false;
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

// Over its limit the client is not read; replies of what it asked before are kept while there is
// room for all clients' together, and beyond that it is closed.
void ClientSession::check_output() {
  const size_t owed = owed_bytes();
  if (is_closed_ || (owed <= kCountedOutput && counted_output_ == 0 && pause_ == 0)) [[likely]] {
    return;
  }
  const size_t counted = owed > kCountedOutput ? owed : 0;
  worker_.change_output_bytes(static_cast<int64_t>(counted) -
                              static_cast<int64_t>(counted_output_));
  counted_output_ = counted;
  const size_t limit = worker_.client_output_limit();
  if (owed > limit) {
    pause(kPauseOutput);
    if (worker_.is_over_output_budget()) close_slow(0);
  } else if (owed <= limit / 2) {
    if ((pause_ & kPauseOutput) != 0) resume(kPauseOutput);
    worker_.resume_waiting();
  }
}

void ClientSession::close_slow(size_t collected) {
  worker_.log().warning(cat("client ", state_.peer, " is closed: it does not read, and ",
                            owed_bytes() + collected, " bytes of replies wait for it"));
  close_now();
}

void ClientSession::on_drained() {
  check_output();
}

// Who only waits for its turn is still listened to: it may hang up meanwhile.
void ClientSession::pause(PauseReason reason) {
  pause_ |= reason;
  if (reason != kPauseTurn) stop_listening();
}

void ClientSession::stop_listening() {
  if (is_deaf_ || is_closed_) return;
  is_deaf_ = true;
  stream_->pause_reading();
}

void ClientSession::resume(PauseReason reason) {
  const bool was_paused = pause_ != 0;
  pause_ &= static_cast<uint8_t>(~reason);
  if (!was_paused || pause_ != 0 || is_closed_) return;
  stop_listening();  // what is here already is brought again by the end of a pause alone
  is_deaf_ = false;
  stream_->resume_reading();
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
  worker_.change_output_bytes(-static_cast<int64_t>(counted_output_));
  worker_.change_input_bytes(-static_cast<int64_t>(counted_input_));
  counted_output_ = counted_input_ = 0;
  worker_.resume_waiting();
  end_transaction();
  end_watch();
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
