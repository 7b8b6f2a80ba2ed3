#include "storage_node/replica/history_log.h"

#include "common/base/check.h"

namespace sf {

namespace {
std::string record_name(uint64_t number) {
  return numbered(kHistoryRecords, number, 10);
}
}  // namespace

Status HistoryLog::load(Engine& engine) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, value] : engine.scan_sys(std::string(kHistoryRecords))) {
    uint64_t number = 0;
    for (char c : name.substr(kHistoryRecords.size())) {
      number = number * 10 + static_cast<uint64_t>(c - '0');
    }
    auto history = decode_history(value);
    if (!history) return history.status();
    if (Status s = chain_.add(std::move(*history)); !s) return s.with_context("stored histories");
    total_ = number + 1;
  }
  return Status::ok();
}

HistoryLog::Snapshot HistoryLog::snapshot() const {
  const std::lock_guard lock(mutex_);
  return {chain_, total_, generation_};
}

std::string HistoryLog::current() const {
  const std::lock_guard lock(mutex_);
  return chain_.current();
}

uint64_t HistoryLog::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

std::vector<History> HistoryLog::since(uint64_t generation, uint64_t* total) const {
  const std::lock_guard lock(mutex_);
  if (generation != generation_ || *total >= total_) return {};
  const auto& all = chain_.entries();
  size_t count = std::min<size_t>(all.size(), total_ - *total);
  *total = total_;
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

History HistoryLog::make(uint64_t fork, SysRecords& records) {
  const std::lock_guard lock(mutex_);
  History history{random_.hex(40), chain_.current(), fork};
  record_next(history, records);
  return history;
}

HistoryChain HistoryLog::make_alone(uint64_t fork, SysRecords& records) {
  HistoryChain alone;
  {
    const std::lock_guard lock(mutex_);
    SF_CHECK(alone.add({random_.hex(40), "", fork}).is_ok());
  }
  records_of(alone, records);
  return alone;
}

void HistoryLog::record(const History& history, SysRecords& records) const {
  const std::lock_guard lock(mutex_);
  record_next(history, records);
}

void HistoryLog::record_next(const History& history, SysRecords& records) const {
  records.emplace_back(record_name(total_), encode_history(history));
  if (chain_.entries().size() >= HistoryChain::kRemembered) {
    records.emplace_back(record_name(total_ - HistoryChain::kRemembered), std::nullopt);
  }
}

void HistoryLog::add(const History& history) {
  const std::lock_guard lock(mutex_);
  SF_CHECK(chain_.add(history).is_ok());
  ++total_;
}

void HistoryLog::records_of(const HistoryChain& chain, SysRecords& records) const {
  const std::lock_guard lock(mutex_);
  uint64_t number = 0;
  for (const History& history : chain.entries()) {
    records.emplace_back(record_name(number++), encode_history(history));
  }
  uint64_t first = total_ - chain_.entries().size();
  for (uint64_t old = first; old < total_; ++old) {
    if (old >= number) records.emplace_back(record_name(old), std::nullopt);
  }
}

void HistoryLog::replace(HistoryChain chain) {
  const std::lock_guard lock(mutex_);
  chain_ = std::move(chain);
  total_ = chain_.entries().size();
  ++generation_;
}

void HistoryLog::end_generation() {
  const std::lock_guard lock(mutex_);
  ++generation_;
}

}  // namespace sf
