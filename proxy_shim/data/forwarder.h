// Decides where a request goes, by its keys, their slots and the routes: to one owner, in parts to
// both, held, or refused before anything is sent (DESIGN 6.5).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/resp/command_catalog.h"
#include "common/resp/request_parser.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class Worker;
class ClientSession;
struct Transaction;

struct ForwardRequest {
  const CommandSpec* spec = nullptr;  // null: unknown, taken for a write of its first argument
  std::span<const std::string_view> argv;
  std::string_view raw;  // RESP
  int db = 0;
  bool wrapped = false;
};

class Forwarder {
 public:
  explicit Forwarder(Worker& worker) : worker_(worker) {}

  // False: it should be held and there is no room, or its server does not keep up and the client is
  // paused (it must not be read on, and brings the same request again). Otherwise it is on its way,
  // held, or answered.
  bool submit(ClientSession& client, const ForwardRequest& request);

  // For a command that is to be queued in MULTI, or WATCH: its slots, and the error if it may not
  // be, also if its owner is not that of `others` ("" otherwise).
  std::string inspect(const ForwardRequest& request, const std::vector<uint16_t>& others,
                      std::vector<uint16_t>* slots);
  // MULTI .. EXEC as one write. `is_watched`: on the connection of the client's WATCH. As submit().
  bool submit_transaction(ClientSession& client, const Transaction& transaction, bool is_watched);

  // A held record taken from the queue: sent, refused, or given back to it.
  void resubmit(Pending* held);

 private:
  enum class Verdict { kSend, kSplit, kHold, kRefuse };

  Verdict judge(const ClientSession& client, const ForwardRequest& request);
  Verdict judge_slots(const ClientSession& client, bool write, bool all_slots);
  Verdict judge_transaction(const ClientSession& client, bool write, bool all_slots,
                            bool is_watched);
  void resubmit_transaction(Pending* held);
  void send_transaction(Pending* record, std::string_view bytes);
  bool must_wait(ClientSession& client, Verdict verdict, int db);
  bool locate_keys(const ForwardRequest& request);
  bool must_hold(const ClientSession& client, bool write, bool all_slots, uint8_t any_flags) const;
  Verdict refuse_for_slot(bool write);
  void find_sides();
  std::string two_owners(std::string_view command) const;
  void describe(Pending* record, const ForwardRequest& request) const;
  void send(Pending* record, const ForwardRequest& request, Verdict verdict);
  void send_parts(Pending* whole, const ForwardRequest& request);
  void note_keys(const ForwardRequest& request);
  void keep_keys(Pending* record, const ForwardRequest& request);
  void refuse(Pending* record);

  Worker& worker_;
  // Scratch of one judgement, kept to save allocations.
  std::vector<int> positions_;
  std::vector<uint16_t> slots_;  // of each key
  uint8_t any_flags_ = 0;        // of the routes of slots_
  Side owner_ = Side::kOld;      // of all keys, if they have one
  std::vector<Side> sides_;      // of each key, if they have two
  std::string refusal_;
  RequestParser parser_;
  Request held_request_;
};

}  // namespace sf
