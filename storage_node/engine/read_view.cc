// Reading: snapshots, gets, scans, node records.
#include <algorithm>
#include <utility>

#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

rocksdb::Slice slice(std::string_view v) {
  return {v.data(), v.size()};
}

struct ScanBounds {
  std::string begin;
  std::string end;
  rocksdb::Slice lower;
  rocksdb::Slice upper;
};

}  // namespace

ReadView::~ReadView() {
  if (engine_ == nullptr) return;
  Engine::State& state = *engine_->state_;
  {
    const std::lock_guard lock(state.views_mutex);
    state.views.erase(state.views.find(snapshot_->GetSequenceNumber()));
  }
  state.rocks()->ReleaseSnapshot(snapshot_);
}

ReadView::ReadView(ReadView&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      snapshot_(other.snapshot_),
      seq_(other.seq_) {}

ReadView Engine::snapshot() {
  const std::lock_guard lock(state_->gate);
  ReadView view = peek();
  view.seq_ = state_->last_seq;
  return view;
}

ReadView Engine::peek() {
  ReadView view;
  // One step for compactions: a view they do not see in the list is younger than their own
  // snapshot.
  const std::lock_guard lock(state_->views_mutex);
  view.snapshot_ = state_->rocks()->GetSnapshot();
  view.engine_ = this;
  state_->views.insert(view.snapshot_->GetSequenceNumber());
  return view;
}

uint64_t Engine::State::oldest_view() const {
  const std::lock_guard lock(views_mutex);
  return views.empty() ? UINT64_MAX : *views.begin();
}

Result<std::optional<std::string>> Engine::get(Cf cf, std::string_view key, const ReadView* view) {
  rocksdb::ReadOptions read;
  if (view != nullptr) read.snapshot = view->raw();
  std::string value;
  const rocksdb::Status status = state_->rocks()->Get(read, state_->handle(cf), slice(key), &value);
  if (status.ok()) return std::optional<std::string>(std::move(value));
  if (status.IsNotFound()) return std::optional<std::string>();
  return to_status(status, "reading");
}

std::unique_ptr<rocksdb::Iterator> Engine::scan(Cf cf, std::string_view begin, std::string_view end,
                                                const ReadView* view) {
  auto* bounds = new ScanBounds{std::string(begin), std::string(end), {}, {}};
  bounds->lower = slice(bounds->begin);
  bounds->upper = slice(bounds->end);
  rocksdb::ReadOptions read;
  if (view != nullptr) read.snapshot = view->raw();
  read.iterate_lower_bound = &bounds->lower;
  read.iterate_upper_bound = &bounds->upper;
  std::unique_ptr<rocksdb::Iterator> it(state_->rocks()->NewIterator(read, state_->handle(cf)));
  it->RegisterCleanup([](void* b, void*) { delete static_cast<ScanBounds*>(b); }, bounds, nullptr);
  it->Seek(bounds->lower);
  return it;
}

Result<std::optional<std::string>> Engine::get_sys(const std::string& name) {
  return get(Cf::kSys, name);
}

std::vector<std::pair<std::string, std::string>> Engine::scan_sys(const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::unique_ptr<rocksdb::Iterator> it(
      state_->rocks()->NewIterator(rocksdb::ReadOptions(), state_->handle(Cf::kSys)));
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    out.emplace_back(it->key().ToString(), it->value().ToString());
  }
  return out;
}

int64_t Engine::key_count(int db, int slot) const {
  return state_->counts.get(db, slot);
}

int64_t Engine::key_count(int db) const {
  return state_->counts.of_db(db);
}

int64_t Engine::expiring_keys(int db) const {
  return std::min(key_count(db), state_->expiring[static_cast<size_t>(db)].load());
}

Engine::Stats Engine::stats() const {
  Stats out;
  for (rocksdb::ColumnFamilyHandle* handle : state_->families) {
    uint64_t value = 0;
    if (state_->rocks()->GetIntProperty(handle, "rocksdb.total-sst-files-size", &value)) {
      out.disk_bytes += value;
    }
    if (state_->rocks()->GetIntProperty(handle, "rocksdb.size-all-mem-tables", &value)) {
      out.memtable_bytes += value;
    }
  }
  out.expired_keys = state_->expired_keys;
  out.disk_full = state_->disk_full || state_->write_failed;
  const std::lock_guard lock(state_->log_mutex);
  out.wal_bytes = state_->log_kept_now.bytes;
  out.disk_bytes += out.wal_bytes;
  return out;
}

}  // namespace sf
