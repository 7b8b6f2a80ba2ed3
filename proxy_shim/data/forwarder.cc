#include "proxy_shim/data/forwarder.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/fanout.h"
#include "proxy_shim/data/transaction.h"
#include "proxy_shim/data/worker.h"

namespace sf {

namespace {

bool is_write(const Worker& worker, const ForwardRequest& request) {
  return request.spec == nullptr || worker.commands().rule(*request.spec).is_write;
}

bool writes_all_slots(const Worker& worker, const ForwardRequest& request) {
  return request.spec == nullptr || worker.commands().rule(*request.spec).all_slots;
}

bool blocks(const ForwardRequest& request) {
  return request.spec != nullptr && request.spec->is(kCmdBlocking) &&
         std::any_of(request.argv.begin(), request.argv.end(),
                     [](std::string_view word) { return equals_ignore_case(word, "BLOCK"); });
}

}  // namespace

// A server that does not keep up makes those wait who ask it: their requests stay with them, so at
// most one goes over its connection's limit, however large each is (I9).
bool Forwarder::must_wait(ClientSession& client, Verdict verdict, int db) {
  bool is_congested = false;
  if (verdict == Verdict::kSend) {
    is_congested = worker_.backend(owner_, db).is_congested();
  } else if (verdict == Verdict::kSplit) {
    is_congested = worker_.backend(Side::kOld, db).is_congested() ||
                   worker_.backend(Side::kNew, db).is_congested();
  }
  if (is_congested) client.pause(kPauseBackend);
  return is_congested;
}

bool Forwarder::submit(ClientSession& client, const ForwardRequest& request) {
  const Verdict verdict = judge(client, request);
  if (must_wait(client, verdict, request.db)) return false;
  Pending* record = worker_.pool().take();
  record->started_us = worker_.now_us();
  record->db = static_cast<uint8_t>(request.db);
  record->wrapped = request.wrapped;
  if (verdict == Verdict::kRefuse) {
    client.enqueue(record);
    refuse(record);
    return true;
  }
  describe(record, request);
  if (verdict != Verdict::kHold) {
    client.enqueue(record);
    send(record, request, verdict);
    return true;
  }
  if (!worker_.holds().push(record, request.raw)) {
    worker_.pool().give(record);
    return false;
  }
  client.enqueue(record);
  client.add_hold(*record);
  return true;
}

void Forwarder::resubmit(Pending* held) {
  if (held->skip > 0) return resubmit_transaction(held);
  ClientSession& client = *held->client;
  const auto outcome = parser_.parse(held->bytes, &held_request_);
  SF_CHECK(outcome == RequestParser::Outcome::kRequest);
  const ForwardRequest request{find_command(held_request_.argv[0]), held_request_.argv,
                               held_request_.raw, held->db, held->wrapped};
  const Verdict verdict = judge(client, request);
  if (verdict == Verdict::kHold) {
    worker_.holds().keep(held);
    client.add_hold(*held);
    return;
  }
  worker_.holds().let_go(held, worker_.loop().now_us());
  if (verdict == Verdict::kRefuse) {
    refuse(held);
  } else {
    send(held, request, verdict);
  }
}

// Fills positions_ and slots_; false with refusal_ set.
bool Forwarder::locate_keys(const ForwardRequest& request) {
  positions_.clear();
  slots_.clear();
  if (request.spec != nullptr && worker_.checks().is_guarded() &&
      worker_.commands().rule(*request.spec).is_guarded) {
    refusal_ = guard_objection(*request.spec, request.argv);
    if (!refusal_.empty()) return false;
  }
  if (request.spec == nullptr) {
    if (request.argv.size() < 2) {
      refusal_ =
          cat("ERR unknown command '", printable(request.argv[0]), "', with args beginning with: ");
      return false;
    }
    positions_.push_back(1);
  } else if (request.spec->name == "SLOTSSCAN") {
    const auto slot = parse_int64(request.argv[1]);
    if (!slot || *slot < 0 || *slot >= kSlotCount) {
      refusal_ = cat("ERR invalid slot ", printable(request.argv[1]), ", expected 0 to 1023");
      return false;
    }
    slots_.push_back(static_cast<uint16_t>(*slot));
    return true;
  } else if (!key_positions(*request.spec, request.argv, &positions_)) {
    refusal_ = "ERR syntax error";
    return false;
  }
  if (request.spec != nullptr && request.spec->split == SplitRule::kMset &&
      request.argv.size() % 2 == 0) {
    refusal_ = "ERR wrong number of arguments for 'mset' command";
    return false;
  }
  for (const int at : positions_) {
    slots_.push_back(static_cast<uint16_t>(slot_of(request.argv[static_cast<size_t>(at)])));
  }
  if (slots_.empty()) {
    refusal_ = cat("ERR '", to_lower(request.argv[0]),
                   "' names no key, so slotferry-shim cannot tell which group shall get it");
    return false;
  }
  return true;
}

bool Forwarder::must_hold(const ClientSession& client, bool write, bool all_slots,
                          uint8_t any_flags) const {
  const SessionHolds* holds = client.holds();
  if (all_slots && (worker_.routes().any_write_held() || holds != nullptr)) return true;
  if ((any_flags & (write ? kRouteHoldWrites : kRouteHoldReads)) != 0) return true;
  if (holds == nullptr) return false;
  return holds->all > 0 || std::any_of(slots_.begin(), slots_.end(),
                                       [&](uint16_t slot) { return holds->slots[slot] > 0; });
}

// Sets refusal_ to that of the first slot that has one.
Forwarder::Verdict Forwarder::refuse_for_slot(bool write) {
  for (const uint16_t slot : slots_) {
    refusal_ = worker_.routes().refusal(slot, write);
    if (!refusal_.empty()) break;
  }
  return Verdict::kRefuse;
}

Forwarder::Verdict Forwarder::judge(const ClientSession& client, const ForwardRequest& request) {
  if (!locate_keys(request)) return Verdict::kRefuse;
  if (blocks(request)) {
    refusal_ = cat("ERR '", to_lower(request.argv[0]),
                   "' with BLOCK would block every client that shares the connection");
    return Verdict::kRefuse;
  }
  const Verdict verdict =
      judge_slots(client, is_write(worker_, request), writes_all_slots(worker_, request));
  if (verdict != Verdict::kSplit || request.spec->split != SplitRule::kNone) return verdict;
  refusal_ = two_owners(request.argv[0]);
  return Verdict::kRefuse;
}

// By slots_. kSplit: they have two owners.
Forwarder::Verdict Forwarder::judge_slots(const ClientSession& client, bool write, bool all_slots) {
  const Routes& routes = worker_.routes();
  uint8_t any_flags = 0;
  uint8_t common_flags = 0xff;
  for (const uint16_t slot : slots_) {
    any_flags |= routes.flags(slot);
    common_flags &= routes.flags(slot);
  }
  if ((any_flags & (kRouteOutside | kRouteDoubt)) != 0) return refuse_for_slot(write);
  if (must_hold(client, write, all_slots, any_flags)) return Verdict::kHold;
  // Only now: the master of a stopped group may be known again when a hold ends.
  if (write && (any_flags & kRouteStopped) != 0) return refuse_for_slot(write);
  owner_ = Routes::side_of(common_flags);
  any_flags_ = any_flags;
  if (((any_flags ^ common_flags) & kRouteNew) == 0) return Verdict::kSend;
  find_sides();
  return Verdict::kSplit;
}

void Forwarder::find_sides() {
  sides_.clear();
  for (const uint16_t slot : slots_) {
    sides_.push_back(Routes::side_of(worker_.routes().flags(slot)));
  }
}

std::string Forwarder::two_owners(std::string_view command) const {
  const auto other = static_cast<size_t>(
      std::find_if(sides_.begin(), sides_.end(), [&](Side s) { return s != sides_[0]; }) -
      sides_.begin());
  const Routes& routes = worker_.routes();
  return cat("CROSSSLOT keys of '", to_lower(command), "' have two owners: slot ", slots_[0],
             " is at ", routes.address(sides_[0]).address.text(), ", slot ", slots_[other], " at ",
             routes.address(sides_[other]).address.text(), "; try again when the move is over");
}

void Forwarder::describe(Pending* record, const ForwardRequest& request) const {
  record->is_write = is_write(worker_, request);
  record->all_slots = writes_all_slots(worker_, request);
  record->slot = slots_[0];
  record->more_slots.assign(slots_.begin() + 1, slots_.end());
}

void Forwarder::note_keys(const ForwardRequest& request) {
  for (size_t i = 0; i < slots_.size() && i < positions_.size(); ++i) {
    if ((worker_.routes().flags(slots_[i]) & kRouteNoted) == 0) continue;
    worker_.notes().note(slots_[i], request.db, request.argv[static_cast<size_t>(positions_[i])]);
  }
}

// Should it never be answered.
void Forwarder::keep_keys(Pending* record, const ForwardRequest& request) {
  record->bytes.clear();
  for (size_t i = 0; i < slots_.size() && i < positions_.size(); ++i) {
    if ((worker_.routes().flags(slots_[i]) & kRouteNoted) == 0) continue;
    if (record->is_part && static_cast<size_t>(sides_[i]) != record->part) continue;
    NoteBuffer::pack(record->bytes, slots_[i], request.argv[static_cast<size_t>(positions_[i])]);
  }
  record->has_keys = true;
}

void Forwarder::send(Pending* record, const ForwardRequest& request, Verdict verdict) {
  const bool noted = record->is_write && (any_flags_ & kRouteNoted) != 0;
  if (noted && is_noted(request.spec, request.argv, worker_.routes().table().note_timed)) {
    note_keys(request);
  }
  if (verdict == Verdict::kSplit) {
    send_parts(record, request);
    return;
  }
  Side side = owner_;
  ReadCheck* check = nullptr;
  if (!record->is_write && request.spec != nullptr && worker_.checks().is_special()) {
    side = worker_.checks().prepare(record, *request.spec, request.raw, owner_);
    check = record->check;
    if (check != nullptr) ++check->left;  // the first reply may be there before the copy is sent
  }
  BackendConn& backend = worker_.backend(side, request.db);
  std::string held;  // what is sent stands in record->bytes if it was held
  std::string_view raw = request.raw;
  if (noted && !record->bytes.empty()) {
    held = raw;
    raw = held;
  }
  if (noted) keep_keys(record, request);
  backend.send(raw, record);
  if (check != nullptr) worker_.checks().send_copy(check, owner_);
}

void Forwarder::send_parts(Pending* whole, const ForwardRequest& request) {
  auto* fanout = new Fanout(whole, *request.spec, request.argv, positions_, sides_);
  whole->fanout = fanout;
  std::array<std::string, Fanout::kParts> requests;
  std::array<Pending*, Fanout::kParts> parts{};
  for (size_t p = 0; p < Fanout::kParts; ++p) {
    requests[p] = fanout->take_request(p);
    Pending* part = worker_.pool().take();
    part->is_part = true;
    part->part = static_cast<uint16_t>(p);
    part->fanout = fanout;
    part->db = whole->db;
    part->is_write = whole->is_write;
    bool is_first = true;
    for (size_t key = 0; key < slots_.size(); ++key) {
      if (static_cast<size_t>(sides_[key]) != p) continue;
      if (is_first) {
        part->slot = slots_[key];
      } else {
        part->more_slots.push_back(slots_[key]);
      }
      is_first = false;
    }
    if (part->is_write && (any_flags_ & kRouteNoted) != 0) keep_keys(part, request);
    parts[p] = part;
  }
  for (size_t p = 0; p < Fanout::kParts; ++p) {
    worker_.backend(static_cast<Side>(p), request.db).send(requests[p], parts[p]);
  }
}

std::string Forwarder::inspect(const ForwardRequest& request, const std::vector<uint16_t>& others,
                               std::vector<uint16_t>* slots) {
  if (!locate_keys(request)) return refusal_;
  if (blocks(request)) return cat("ERR '", to_lower(request.argv[0]), "' cannot block here");
  *slots = slots_;
  for (const uint16_t slot : slots_) {
    std::string refusal = worker_.routes().refusal(slot, is_write(worker_, request));
    if (!refusal.empty()) return refusal;
  }
  slots_.insert(slots_.begin(), others.begin(), others.end());
  find_sides();
  const bool is_one =
      std::all_of(sides_.begin(), sides_.end(), [&](Side side) { return side == sides_[0]; });
  return is_one ? std::string() : two_owners(request.argv[0]);
}

Forwarder::Verdict Forwarder::judge_transaction(const ClientSession& client, bool write,
                                                bool all_slots, bool is_watched) {
  Verdict verdict = judge_slots(client, write, all_slots);
  if (verdict == Verdict::kSplit) {
    refusal_ = two_owners("exec");
    verdict = Verdict::kRefuse;
  }
  // "EXECABORT" tells clients that nothing of it was done.
  if (verdict == Verdict::kRefuse) refusal_ = cat("EXECABORT Transaction discarded: ", refusal_);
  if (verdict == Verdict::kSend && is_watched && !client.watch_holds()) return Verdict::kSplit;
  return verdict;
}

bool Forwarder::submit_transaction(ClientSession& client, const Transaction& transaction,
                                   bool is_watched) {
  slots_ = transaction.slots;
  const Verdict verdict =
      judge_transaction(client, transaction.is_write, transaction.all_slots, is_watched);
  if (verdict == Verdict::kSend && must_wait(client, verdict, client.db())) return false;
  Pending* record = worker_.pool().take();
  record->started_us = worker_.now_us();
  record->db = static_cast<uint8_t>(client.db());
  record->is_write = transaction.is_write;
  record->all_slots = transaction.all_slots;
  record->skip = transaction.count + 1;
  record->is_watched = is_watched;
  record->slot = slots_[0];
  record->more_slots.assign(slots_.begin() + 1, slots_.end());
  if (verdict == Verdict::kHold) {
    if (!worker_.holds().push(record, transaction.bytes)) {
      worker_.pool().give(record);
      return false;
    }
    client.enqueue(record);
    client.add_hold(*record);
    return true;
  }
  client.enqueue(record);
  if (verdict == Verdict::kSend) {
    send_transaction(record, transaction.bytes);
  } else {
    refuse(record);
  }
  return true;
}

void Forwarder::resubmit_transaction(Pending* held) {
  slots_.assign(1, held->slot);
  slots_.insert(slots_.end(), held->more_slots.begin(), held->more_slots.end());
  const Verdict verdict =
      judge_transaction(*held->client, held->is_write, held->all_slots, held->is_watched);
  if (verdict == Verdict::kHold) {
    worker_.holds().keep(held);
    held->client->add_hold(*held);
    return;
  }
  worker_.holds().let_go(held, worker_.loop().now_us());
  if (verdict == Verdict::kSplit) {
    worker_.complete(held, "*-1\r\n");  // what was watched has another owner now
  } else if (verdict == Verdict::kRefuse) {
    refuse(held);
  } else {
    const std::string bytes = std::move(held->bytes);
    send_transaction(held, bytes);
  }
}

void Forwarder::send_transaction(Pending* record, std::string_view bytes) {
  ClientSession* client = record->client;
  BackendConn* watched = record->is_watched ? client->watch_conn() : nullptr;
  BackendConn& backend = watched != nullptr ? *watched : worker_.backend(owner_, record->db);
  backend.send(bytes, record);
}

void Forwarder::refuse(Pending* record) {
  worker_.stats().rejected.add();
  worker_.complete_with_error(record, refusal_);
}

}  // namespace sf
