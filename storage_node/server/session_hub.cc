#include "storage_node/server/session_hub.h"

#include "common/base/strings.h"

namespace sf {

SessionHub::SessionHub(Loop& loop, Engine& engine, Dispatcher& dispatcher, Shared& shared,
                       bool sync_always, Log log)
    : loop_(loop),
      engine_(engine),
      dispatcher_(dispatcher),
      shared_(shared),
      sync_always_(sync_always),
      log_(std::move(log)) {}

SessionHub::~SessionHub() = default;

void SessionHub::add(std::unique_ptr<AcceptedSocket> socket) {
  const uint64_t id = shared_.next_id.fetch_add(1);
  auto session = std::make_unique<ClientSession>(*this, dispatcher_, id, !shared_.needs_password());
  ClientSession& added = *session;
  sessions_.emplace(id, std::move(session));
  shared_.clients.fetch_add(1);
  added.start(std::move(socket));
}

void SessionHub::reject(std::unique_ptr<AcceptedSocket> socket) {
  class Nobody : public StreamHandler {
    size_t on_data(std::string_view unread) override { return unread.size(); }
    void on_closed(const Status& /*why*/) override {}
  };
  Nobody nobody;
  const std::unique_ptr<Stream> stream = loop_.adopt(std::move(socket), &nobody);
  stream->write("-ERR max number of clients reached\r\n");
  stream->close_after_flush();
}

ClientSession* SessionHub::find(uint64_t id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

void SessionHub::remove(uint64_t id) {
  if (sessions_.erase(id) != 0) shared_.clients.fetch_sub(1);
}

void SessionHub::remove_later(uint64_t id) {
  loop_.defer([this, id] { remove(id); });
}

void SessionHub::close_all() {
  shared_.clients.fetch_sub(static_cast<int64_t>(sessions_.size()));
  sessions_.clear();
}

void SessionHub::for_each(const std::function<void(ClientSession&)>& fn) {
  for (const auto& [id, session] : sessions_) fn(*session);
}

void SessionHub::sync_before_replies() {
  if (!sync_always_ || sync_asked_) return;
  sync_asked_ = true;
  loop_.defer([this] {
    sync_asked_ = false;
    const Status synced = engine_.wait_synced(engine_.last_seq());
    if (synced) return;
    log_.error(cat("closing all connections, replies unsent: ", synced.text()));
    close_all();
  });
}

}  // namespace sf
