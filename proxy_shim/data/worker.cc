#include "proxy_shim/data/worker.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/fanout.h"

namespace sf {

namespace {
constexpr int64_t kFlushCheckUs = 20'000;
constexpr size_t kLeastOutput = 64UL << 10;  // a client may owe this much, however little is left
// Until a client's replies are known, as large as this each.
constexpr size_t kFirstReplyEstimate = 128UL << 10;

int64_t share_of(size_t total, const DataPlaneOptions& options) {
  return static_cast<int64_t>(total) / std::max(options.threads, 1);
}
}  // namespace

Worker::Worker(int index, Loop& loop, PlaneShared& shared, std::shared_ptr<const RouteTable> table)
    : index_(index),
      loop_(loop),
      shared_(shared),
      stats_(*shared.stats[static_cast<size_t>(index)]),
      routes_(std::make_unique<Routes>(std::move(table))),
      facts_(std::make_shared<BackendFacts>()),
      output_bytes_max_(share_of(shared.options.output_bytes_max, shared.options)),
      requests_max_(share_of(shared.options.requests_max, shared.options)),
      large_reply_(kFirstReplyEstimate),
      pool_(stats_.inflight),
      holds_(shared.holds),
      notes_(static_cast<size_t>(share_of(shared.options.noted_keys_max, shared.options)),
             static_cast<size_t>(share_of(shared.options.noted_bytes_max, shared.options))),
      forwarder_(*this),
      checks_(*this),
      alive_(std::make_shared<Worker*>(this)) {
  touch_clock();
  checks_.set(shared_.options.rules);
  warm_backends();
}

Worker::~Worker() {
  *alive_ = nullptr;
  checks_.stop();
  for (const TimerId id : timers_) loop_.cancel(id);
  shared_.clients.fetch_sub(static_cast<int64_t>(clients_.size()), std::memory_order_relaxed);
  clients_.clear();
  retired_.clear();
  for (auto& side : backends_) {
    for (auto& conn : side) conn.reset();
  }
}

void Worker::adopt(std::unique_ptr<AcceptedSocket> socket) {
  if (is_finishing_) return;
  // Ids are unique over workers: CLIENT ID shows them.
  const uint64_t id = next_client_++ * static_cast<uint64_t>(shared_.options.threads) +
                      static_cast<uint64_t>(index_);
  auto session = std::make_unique<ClientSession>(*this, id);
  session->open(std::move(socket));
  clients_.emplace(id, std::move(session));
  stats_.clients.set(static_cast<int64_t>(clients_.size()));
}

void Worker::apply(std::shared_ptr<const RouteTable> table) {
  if (table->epoch < routes_->table().epoch) return;  // two publishers crossed: the later one holds
  touch_clock();
  routes_ = std::make_unique<Routes>(std::move(table));
  renew_backends();
  release_held();
  resume_clients(kPauseHold);
}

size_t Worker::client_output_limit() const {
  const int64_t left = std::max<int64_t>(output_bytes_max_ - output_bytes_, 0);
  const size_t most = options().client_output_bytes_max;
  return std::clamp(static_cast<size_t>(left) / 8, std::min(kLeastOutput, most), most);
}

bool Worker::change_input_bytes(int64_t by) {
  const int64_t now = shared_.input_bytes.fetch_add(by, std::memory_order_relaxed) + by;
  return now <= static_cast<int64_t>(options().input_bytes_max);
}

void Worker::resume_all_waiting() {
  const std::vector<BackendConn*> all = std::exchange(waiting_, {});
  for (BackendConn* conn : all) conn->go_on();
}

void Worker::retire(std::unique_ptr<BackendConn> conn) {
  retired_.push_back(std::move(conn));
  retired_.back()->retire();
}

// A connection to a server that is no longer a side's ends when the last read is answered, and at
// once if a write is on its way there, also one of a client's own (WATCH) or from an earlier
// change.
void Worker::renew_backends() {
  for (auto& side : backends_) {
    for (auto& conn : side) {
      if (conn == nullptr) continue;
      if (is_replaced(*conn)) {
        retired_.push_back(std::move(conn));
      } else {
        conn->rename(routes_->address(conn->side()));
      }
    }
  }
  for (auto& [id, client] : clients_) {
    BackendConn* own = client->watch_conn();
    if (own == nullptr) continue;
    if (is_replaced(*own)) {
      retired_.push_back(client->give_watch_conn());
    } else {
      own->rename(routes_->address(own->side()));
    }
  }
  // Clients that are told may retire more of them.
  for (size_t i = 0; i < retired_.size(); ++i) {
    if (is_replaced(*retired_[i])) retired_[i]->leave();
  }
  warm_backends();
}

bool Worker::is_replaced(const BackendConn& conn) const {
  return routes_->address(conn.side()).replaces(conn.address());
}

// A side's first request after a switch shall not wait for a connection.
void Worker::warm_backends() {
  for (int db = 0; db < kDatabases; ++db) {
    const auto at = static_cast<size_t>(db);
    const bool in_use = db == 0 || backends_[0][at] != nullptr || backends_[1][at] != nullptr;
    if (!in_use) continue;
    for (const Side side : {Side::kOld, Side::kNew}) {
      if (routes_->address(side).address.port != 0) backend(side, db).warm();
    }
  }
}

void Worker::open_backend(Side side, int db) {
  backends_[static_cast<size_t>(side)][static_cast<size_t>(db)] =
      std::make_unique<BackendConn>(*this, side, db, routes_->address(side));
}

bool Worker::stays_held(const Pending& held) const {
  if (held.all_slots) return routes_->any_write_held();
  if (!held.more_slots.empty()) return false;  // judged anew
  return (routes_->flags(held.slot) & (held.is_write ? kRouteHoldWrites : kRouteHoldReads)) != 0;
}

void Worker::release_held() {
  holds_.for_each([](const Pending& held) { held.client->clear_holds(); });
  holds_.begin_pass();
  while (Pending* held = holds_.take_next()) {
    if (stays_held(*held)) {
      holds_.keep(held);
      held->client->add_hold(*held);
    } else {
      forwarder_.resubmit(held);
    }
  }
}

void Worker::complete(Pending* record, std::string_view reply) {
  if (record->check != nullptr && checks_.saw(record, reply)) [[unlikely]]
    return;
  if (record->is_part) {
    complete_part(record, reply);
  } else if (record->client != nullptr) {
    record->client->reply(record, reply);
  } else {
    pool_.give(record);
  }
}

void Worker::complete_part(Pending* part, std::string_view reply) {
  Fanout* fanout = part->fanout;
  std::string too_large;
  if (part->is_dropped) {
    resp::error(too_large, cat("ERR the part of the reply that one server sent is larger than ",
                               options().reply_bytes_max, " bytes; ask for fewer keys at once"));
    reply = too_large;
  }
  const bool is_last = fanout->add_reply(part->part, reply);
  pool_.give(part);
  if (!is_last) return;
  Pending* whole = fanout->whole();
  std::string out;
  fanout->joined(out);
  whole->fanout = nullptr;
  delete fanout;
  complete(whole, out);
}

void Worker::complete_with_error(Pending* record, std::string_view text) {
  if (!record->is_part && record->client != nullptr && record->check == nullptr) {
    record->client->reply_error(record, text);
    return;
  }
  std::string out;
  resp::error(out, text);
  if (record->check != nullptr) {
    if (checks_.saw(record, out)) return;
    if (record->client != nullptr) return record->client->reply_error(record, text);
  }
  complete(record, out);
}

void Worker::complete_later(Pending* record, std::string reply, int64_t delay_us) {
  const auto id = std::make_shared<TimerId>(0);
  *id = loop_.call_after(delay_us, [this, record, id, reply = std::move(reply)] {
    timers_.erase(*id);
    touch_clock();
    complete(record, reply);
  });
  timers_.insert(*id);
}

bool Worker::pass_piece(Pending* record, std::string_view piece) {
  if (record->is_dropped) return true;
  if (record->check != nullptr) [[unlikely]]
    checks_.spoil(record);
  if (record->is_part) return false;
  return record->client == nullptr || record->client->pass_piece(record, piece);
}

void Worker::give_up(Pending* record, size_t collected) {
  record->is_dropped = true;
  if (!record->is_part && record->client != nullptr) record->client->close_slow(collected);
}

void Worker::resume_clients(PauseReason reason) {
  for (auto& [id, client] : clients_) client->resume(reason);
}

void Worker::defer_alive(std::function<void()> fn) {
  loop_.defer([alive = alive_, fn = std::move(fn)] {
    if (*alive != nullptr) fn();
  });
}

void Worker::remove_client_later(uint64_t id) {
  defer_alive([this, id] { remove_client(id); });
}

void Worker::remove_client_when_flushed(uint64_t id) {
  const auto timer = std::make_shared<TimerId>(0);
  *timer = loop_.call_after(kFlushCheckUs, [this, id, timer] {
    timers_.erase(*timer);
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    // The stream ends by itself when its peer does not read for too long.
    found->second->is_flushed() ? remove_client(id) : remove_client_when_flushed(id);
  });
  timers_.insert(*timer);
}

void Worker::remove_client(uint64_t id) {
  if (clients_.erase(id) == 0) return;
  shared_.clients.fetch_sub(1, std::memory_order_relaxed);
  stats_.clients.set(static_cast<int64_t>(clients_.size()));
  if (is_finishing_ && clients_.empty() && on_all_gone_) std::exchange(on_all_gone_, nullptr)();
}

void Worker::remove_retired_later() {
  defer_alive(
      [this] { std::erase_if(retired_, [](const auto& conn) { return conn->is_idle(); }); });
}

void Worker::finish_clients(std::function<void()> done) {
  is_finishing_ = true;
  touch_clock();
  if (clients_.empty()) return done();
  on_all_gone_ = std::move(done);
  for (auto& [id, client] : clients_) client->finish();
}

ServerView Worker::view(bool with_stats) const {
  ServerView view{shared_.options, *facts_, {}, shared_.port.load(std::memory_order_relaxed), 0, 0};
  if (with_stats) view.stats = shared_.total_stats();
  view.uptime_s = (now_us_ - shared_.started_us) / 1'000'000;
  view.wall_ms = loop_.wall_ms();
  return view;
}

}  // namespace sf
