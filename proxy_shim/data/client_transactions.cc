// MULTI, EXEC and WATCH of commands with keys. What a transaction does not touch is elsewhere.
#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/client_session.h"
#include "proxy_shim/data/transaction.h"
#include "proxy_shim/data/worker.h"

namespace sf {

namespace {
constexpr std::string_view kMulti = "*1\r\n$5\r\nMULTI\r\n";
constexpr std::string_view kExec = "*1\r\n$4\r\nEXEC\r\n";
constexpr std::string_view kNilArray = "*-1\r\n";
constexpr std::string_view kQueued = "+QUEUED\r\n";

void add_slots(std::vector<uint16_t>& to, const std::vector<uint16_t>& slots) {
  for (const uint16_t slot : slots) {
    if (std::find(to.begin(), to.end(), slot) == to.end()) to.push_back(slot);
  }
}
}  // namespace

Transaction::Transaction(Worker& worker) : bytes(kMulti), worker_(worker) {}

Transaction::~Transaction() {
  worker_.change_input_bytes(-counted_);
}

bool Transaction::add(const Request& request) {
  const auto size = static_cast<int64_t>(request.raw.size());
  if (!worker_.change_input_bytes(size)) {
    worker_.change_input_bytes(-size);
    return false;
  }
  counted_ += size;
  if (request.is_inline) {
    resp::request(bytes, request.argv);
  } else {
    bytes.append(request.raw);
  }
  ++count;
  return true;
}

bool ClientSession::handle_transaction(const CommandSpec& spec, const CommandRule& rule,
                                       const Request& request) {
  if (!worker_.options().transactions) return false;
  const bool is_watch = spec.name == "WATCH" && !state_.in_multi;
  const bool is_exec = spec.name == "EXEC" && state_.in_multi;
  if (is_watch || (is_exec && watch_ != nullptr && watch_->is_active)) {
    // They go over another connection than what the client asked before (I5).
    if (queued_ > 0) {
      pause(kPauseTurn);
      retry_ = true;
      return true;
    }
    if (is_watch) {
      watch(spec, request);
      return true;
    }
  }
  if (spec.name == "UNWATCH" && !state_.in_multi) {
    end_watch();
    answer("+OK\r\n");
    return true;
  }
  if (!state_.in_multi) return false;
  if (spec.name == "DISCARD") {
    end_transaction();
    end_watch();
    return false;  // the rest is the local command's
  }
  if (is_exec) return execute();
  if (rule.handling != Handling::kForward) return false;
  queue_data(spec, rule, request);
  return true;
}

void ClientSession::queue_data(const CommandSpec& spec, const CommandRule& rule,
                               const Request& request) {
  if (transaction_ == nullptr) transaction_ = std::make_unique<Transaction>(worker_);
  Transaction& all = *transaction_;
  std::vector<uint16_t> slots;
  std::string refusal = worker_.forwarder().inspect(
      {&spec, request.argv, request.raw, state_.db, false}, all.slots, &slots);
  if (refusal.empty() && state_.multi_count > 0) {
    refusal = cat("ERR '", to_lower(spec.name),
                  "' cannot be in one MULTI with commands that "
                  "slotferry-shim answers itself");
  }
  if (refusal.empty() && (all.count >= Transaction::kCommandsMax ||
                          all.bytes.size() + request.raw.size() > Transaction::kBytesMax)) {
    refusal = cat("ERR a transaction is at most ", Transaction::kCommandsMax, " commands and ",
                  Transaction::kBytesMax, " bytes here");
  }
  if (refusal.empty() && !all.add(request)) {
    refusal = "ERR no room for a request of this size now, try again later";
  }
  std::string out;
  if (!refusal.empty()) {
    state_.multi_failed = true;
    worker_.stats().rejected.add();
    resp::error(out, refusal);
    return answer(out);
  }
  all.is_write = all.is_write || rule.is_write;
  all.all_slots = all.all_slots || rule.all_slots;
  add_slots(all.slots, slots);
  answer(kQueued);
}

// False: EXEC is the local command's, which knows the dashboard's transactions and the errors.
bool ClientSession::execute() {
  std::unique_ptr<Transaction> all = std::move(transaction_);
  const bool is_watched = watch_ != nullptr && watch_->is_active;
  if (state_.multi_failed || state_.multi_count > 0 || (all == nullptr && !is_watched)) {
    end_watch();
    return false;
  }
  state_.in_multi = false;
  if (is_watched && !watch_holds()) {
    end_watch();
    answer(kNilArray);
    return true;
  }
  if (is_watched) watch_->is_active = false;  // EXEC ends it, whatever comes of it
  if (all == nullptr) all = std::make_unique<Transaction>(worker_);
  if (is_watched) add_slots(all->slots, watch_->slots);
  all->bytes += kExec;
  const bool taken = worker_.forwarder().submit_transaction(*this, *all, is_watched);
  if (!taken) {
    // No room for it now. The same EXEC comes again when there is.
    state_.in_multi = true;
    all->bytes.resize(all->bytes.size() - kExec.size());
    if (is_watched) watch_->is_active = true;
    transaction_ = std::move(all);
    retry_ = true;
    return true;
  }
  if (is_watched && queued_ > 0) pause(kPauseTurn);
  return true;
}

void ClientSession::watch(const CommandSpec& spec, const Request& request) {
  std::string encoded;
  if (request.is_inline) resp::request(encoded, request.argv);
  const std::string_view raw = request.is_inline ? std::string_view(encoded) : request.raw;
  if (watch_ == nullptr) watch_ = std::make_unique<Watch>();
  std::vector<uint16_t> slots;
  const std::string refusal = worker_.forwarder().inspect(
      {&spec, request.argv, raw, state_.db, false},
      watch_->is_active ? watch_->slots : std::vector<uint16_t>{}, &slots);
  if (!refusal.empty()) {
    std::string out;
    resp::error(out, refusal);
    return answer(out);
  }
  const Routes& routes = worker_.routes();
  const Side side = Routes::side_of(routes.flags(slots[0]));
  if (!watch_->is_active) {
    watch_->slots.clear();
    watch_->side = side;
    watch_->is_lost = false;
    if (watch_->conn == nullptr || watch_->conn->db() != state_.db ||
        routes.address(side).replaces(watch_->conn->address())) {
      if (watch_->conn != nullptr) worker_.retire(std::move(watch_->conn));
      watch_->conn = std::make_unique<BackendConn>(worker_, side, state_.db, routes.address(side));
    }
    watch_->breaks = watch_->conn->breaks();
    watch_->is_active = true;
  }
  add_slots(watch_->slots, slots);
  // The old side is about to refuse reads: the owner may be another one before EXEC.
  for (const uint16_t slot : slots) {
    if ((routes.flags(slot) & kRouteHoldReads) != 0) watch_->is_lost = true;
  }
  if (watch_->is_lost) return answer("+OK\r\n");
  Pending* record = worker_.pool().take();
  record->started_us = worker_.now_us();
  record->slot = slots[0];
  record->more_slots.assign(slots.begin() + 1, slots.end());
  enqueue(record);
  // What the client asks next goes over another connection and must not overtake this.
  pause(kPauseTurn);
  watch_->conn->send(raw, record);
}

bool ClientSession::watch_holds() const {
  const Watch& w = *watch_;
  const Routes& routes = worker_.routes();
  if (w.is_lost || w.conn == nullptr || w.conn->breaks() != w.breaks) return false;
  if (w.conn->db() != state_.db || routes.address(w.side).replaces(w.conn->address())) return false;
  return std::all_of(w.slots.begin(), w.slots.end(),
                     [&](uint16_t slot) { return Routes::side_of(routes.flags(slot)) == w.side; });
}

BackendConn* ClientSession::watch_conn() const {
  return watch_ != nullptr ? watch_->conn.get() : nullptr;
}

std::unique_ptr<BackendConn> ClientSession::give_watch_conn() {
  return std::move(watch_->conn);
}

void ClientSession::end_watch() {
  if (watch_ == nullptr) return;
  if (watch_->conn != nullptr) worker_.retire(std::move(watch_->conn));
  watch_.reset();
}

void ClientSession::end_transaction() {
  transaction_.reset();
}

}  // namespace sf
