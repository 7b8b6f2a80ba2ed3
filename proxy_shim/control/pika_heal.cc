// What a Pika driver compares and puts right (DESIGN 6.4, I2b): keys of the heal list, and
// everything both sides hold, page by page.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/random.h"
#include "common/slots/slot_hash.h"
#include "common/slots/slot_tag.h"
#include "proxy_shim/control/pika_driver.h"
#include "proxy_shim/control/pika_keys.h"

namespace sf {
namespace {

using Json = nlohmann::json;
using Requests = std::vector<std::vector<std::string>>;

// Pika says nothing when a key becomes readable; asking again is all there is.
constexpr std::chrono::microseconds kPollGap{500};
constexpr int64_t kSettleMs = 20'000;
constexpr size_t kTold = 20;  // differences named in a report
constexpr size_t kWriteBatchBytes = 1UL << 20;
constexpr const char* kPage = "200";

size_t size_of(const std::vector<std::string>& request) {
  size_t out = 0;
  for (const std::string& word : request) out += word.size();
  return out;
}

}  // namespace

// Every write of the unit's binlog that was answered before the call is applied when it returns:
// each apply worker has done what came after. -1: not within `most_us`.
Result<int64_t> PikaDriver::settle(const SlotSet& slots, int64_t most_us, int64_t timeout_ms) {
  const int64_t start_us = clock_->mono_us();
  const PikaFence keys =
      choose_fence(tag_of_slot(tag_slot(slots), kSlotCount), plan_.id + ":trial",
                   Random(Random::system_seed()).hex(32), new_server_.sync_threads);
  Result<PikaSide> from = look(old_, slots, timeout_ms);
  if (!from) return from.status();
  const bool several = from->ends.size() > 1;
  Requests put, get, remove;
  for (const auto& [binlog, at] : from->ends) {
    for (Requests* requests : {&put, &get, &remove}) {
      if (several) requests->push_back({"SELECT", std::to_string(database_of(binlog))});
    }
    for (const std::string& key : keys.keys) {
      put.push_back({"SET", key, keys.value});
      put.push_back({"EXPIRE", key, "1000"});  // gone by itself should we end here
      remove.push_back({"DEL", key});
    }
    get.push_back(keys.get_command());
  }
  for (Requests* requests : {&put, &get, &remove}) {
    if (several) requests->push_back({"SELECT", "0"});
  }
  Status status = old_.ask_all(put, timeout_ms).status();
  if (!status) return status;
  bool there = false;
  int64_t took_us = -1;
  while (status && !there && clock_->mono_us() - start_us < most_us) {
    Result<std::vector<Reply>> replies = new_.ask_all(get, timeout_ms);
    status = replies.status();
    there = replies.is_ok();
    for (size_t i = 0; there && i < get.size(); ++i) {
      there = get[i][0] != "MGET" || all_values((*replies)[i], keys);
    }
    if (there) took_us = clock_->mono_us() - start_us;
    if (!there) std::this_thread::sleep_for(kPollGap);
  }
  const Status removed = old_.ask_all(remove, timeout_ms).status();
  if (!status || !removed) return status ? removed : status;
  return took_us;
}

PikaAsked PikaDriver::asked() const {
  const int major = old_server_.major;
  return {.streams = major > 3 || (major == 3 && old_server_.minor >= 5), .slack_s = major > 3};
}

Result<std::vector<PikaDriver::Pair>> PikaDriver::differing(const std::vector<HealKey>& keys,
                                                            int64_t timeout_ms) {
  // The old side first: what the new one then has is not older.
  Result<std::vector<PikaValue>> was = read_keys(old_, keys, asked(), timeout_ms);
  if (!was) return was.status();
  Result<std::vector<PikaValue>> is = read_keys(new_, keys, asked(), timeout_ms);
  if (!is) return is.status();
  std::vector<Pair> out;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!same((*was)[i], (*is)[i])) out.push_back({keys[i], (*was)[i], (*is)[i]});
  }
  return out;
}

Healing PikaDriver::healing_of(const std::vector<Pair>& pairs, size_t compared) const {
  Healing out;
  out.compared = static_cast<int64_t>(compared);
  for (const Pair& pair : pairs) {
    out.different.push_back(pair.at);
    if (out.found.size() >= kTold) continue;
    out.found.push_back(cat("db", pair.at.db, " '", printable(pair.at.key, 60),
                            "': ", difference(pair.was, pair.is)));
  }
  return out;
}

Result<Healing> PikaDriver::compare(const SlotSet& slots, const std::vector<HealKey>& keys,
                                    bool settled_first, int64_t timeout_ms) {
  if (settled_first) {
    Result<int64_t> settled = settle(slots, kSettleMs * 1000, timeout_ms);
    if (!settled) return settled.status();
    if (*settled < 0) {
      return Status::unavailable(cat(new_.address().text(), " has not applied what was written ",
                                     kSettleMs / 1000, " s ago"));
    }
  }
  Result<std::vector<Pair>> pairs = differing(keys, timeout_ms);
  if (!pairs) return pairs.status();
  return healing_of(*pairs, keys.size());
}

Result<std::vector<HealKey>> PikaDriver::next_keys(PassCursor* cursor, int64_t timeout_ms) {
  RespClient& client = cursor->side == PairSide::kOld ? old_ : new_;
  if (databases_ == 0) {
    Result<std::string> said = config_get(client, "databases", timeout_ms);
    if (!said) return said.status();
    databases_ = static_cast<int>(parse_int64(*said).value_or(1));
  }
  Result<std::vector<Reply>> replies = client.ask_all({{"SELECT", std::to_string(cursor->db)},
                                                       {"SCAN", cursor->at, "COUNT", kPage},
                                                       {"SELECT", "0"}},
                                                      timeout_ms);
  if (!replies) return replies.status();
  const Reply& page = (*replies)[1];
  if (page.elements.size() != 2) {
    return Status::corrupt(cat(client.address().text(), " answers SCAN with no page"));
  }
  std::vector<HealKey> out;
  for (const Reply& key : page.elements[1].elements) {
    // Its index of slots, which is no client's data (cases O05).
    const bool internal = key.text.starts_with("_internal:slot");
    if (internal || key.text.find("}__slotferry:") != std::string::npos) continue;
    if (plan_.slots.contains(slot_of(key.text))) out.push_back({cursor->db, key.text});
  }
  cursor->at = page.elements[0].text;
  if (cursor->at != "0") return out;
  if (++cursor->db < databases_) return out;
  cursor->db = 0;
  cursor->done = cursor->side == PairSide::kNew;
  cursor->side = PairSide::kNew;
  return out;
}

std::string PikaDriver::heal_note(const SlotSet& slots) const {
  return cat("pika.healing.", (plan_.unit == CutUnit::kPlan ? plan_.slots : slots).text());
}

Status PikaDriver::write_healed(const std::vector<Pair>& pairs, int64_t deadline_us) {
  Requests batch;
  size_t bytes = 0;
  int db = 0;
  const auto send = [&]() -> Status {
    const int64_t left_ms = (deadline_us - clock_->mono_us()) / 1000;
    if (left_ms <= 0) return Status::timeout("the time for healing is over");
    Status status = new_.ask_all(batch, left_ms).status();
    batch.clear();
    bytes = 0;
    return status;
  };
  for (const Pair& pair : pairs) {
    if (pair.at.db != db) batch.push_back({"SELECT", std::to_string(pair.at.db)});
    db = pair.at.db;
    for (auto& request : repair(pair.at.key, pair.is, pair.was)) {
      bytes += size_of(request);
      batch.push_back(std::move(request));
      if (bytes < kWriteBatchBytes && batch.size() < 1'000) continue;
      if (Status status = send(); !status) return status;
    }
  }
  if (db != 0) batch.push_back({"SELECT", "0"});
  return batch.empty() ? Status::ok() : send();
}

Result<Healing> PikaDriver::heal(const CutAttempt& attempt, const std::vector<HealKey>& keys,
                                 int64_t timeout_ms) {
  const int64_t start_us = clock_->mono_us();
  const int64_t deadline_us = start_us + timeout_ms * 1000;
  Result<std::vector<Pair>> pairs = differing(keys, timeout_ms);
  if (!pairs) return pairs.status();
  Healing out = healing_of(*pairs, keys.size());
  if (!pairs->empty()) {
    // A new side that was written to cannot be taken back without a copy, so it is not begun with.
    const int64_t now_us = clock_->mono_us();
    if (now_us - start_us > (deadline_us - start_us) / 2) {
      return Status::timeout(cat("comparing ", keys.size(), " keys took ",
                                 (now_us - start_us) / 1000,
                                 " ms, which leaves no time to copy the ", pairs->size(),
                                 " that differ; nothing was written"));
    }
    Status status = notes_->put_note(heal_note(attempt.slots), std::to_string(attempt.epoch));
    if (status) status = write_healed(*pairs, deadline_us);
    if (!status) return status;
    const int64_t left_ms = std::max<int64_t>((deadline_us - clock_->mono_us()) / 1000, 1);
    Result<std::vector<PikaValue>> now = read_keys(new_, out.different, asked(), left_ms);
    if (!now) return now.status();
    for (size_t i = 0; i < now->size(); ++i) {
      if (same((*pairs)[i].was, (*now)[i])) continue;
      return Status::corrupt(
          cat("key '", printable((*pairs)[i].at.key, 60), "' was copied to ", new_.address().text(),
              " and is not the same there: ", difference((*pairs)[i].was, (*now)[i])));
    }
  }
  Result<PikaSide> from = look(old_, attempt.slots, std::max<int64_t>(timeout_ms / 2, 1));
  if (!from) return from.status();
  Status status = same_processes(*from, PairSide::kOld);
  if (status) status = still_at(*from, now_.end, "old");
  if (!status) return status;
  out.old_end = position(*from);
  return out;
}

}  // namespace sf
