#include "migrator/pika_slots.h"

namespace sf {
namespace {

Status add_slots(MoveContext& context, std::string_view step, Peer& server, const SlotSet& slots) {
  return context.effect(step, cat("PKCLUSTER ADDSLOTS ", slots.text(), " on ", server.label()),
                        [&] {
                          return server.expect({"PKCLUSTER", "ADDSLOTS", slots.text()}).status();
                        });
}

}  // namespace

Result<std::map<int, PikaSlot>> read_pika_slots(Peer& peer, const SlotSet& slots) {
  const auto reply = peer.expect({"PKCLUSTER", "INFO", "SLOT", slots.text()});
  if (!reply) return reply.status();
  auto rows = parse_pika_slots(reply->text);
  if (!rows) return rows.status().with_context(peer.label());
  std::erase_if(*rows, [&](const auto& row) {
    return row.first >= kSlotCount || !slots.contains(row.first);
  });
  return rows;
}

Result<std::map<int, PikaSlot>> need_pika_slots(Peer& peer, const SlotSet& slots) {
  auto rows = read_pika_slots(peer, slots);
  if (!rows) return rows;
  SlotSet missing;
  slots.for_each([&](int slot) {
    if (!rows->contains(slot)) missing.add(slot);
  });
  if (missing.empty()) return rows;
  return Status::refused(cat(peer.label(), " does not hold slots ", missing.text(),
                             ": look at PKCLUSTER INFO SLOT there, the plan's addresses and the "
                             "dashboard's groups"));
}

bool follows(const PikaSlot& row, const HostPort& master) {
  if (row.is_master) return false;
  if (row.master == master) return true;
  const bool local = master.host == "127.0.0.1" || master.host == "localhost";
  return local && row.master.port == master.port;
}

Result<SlotSet> pika_slots_with_keys(Peer& peer, const SlotSet& slots) {
  const std::vector<int> all = slots.to_vector();
  std::vector<Argv> requests;
  for (const int slot : all) {
    requests.push_back({"SLOTSSCAN", std::to_string(slot), "0", "COUNT", "10"});
  }
  SlotSet found;
  if (requests.empty()) return found;
  const auto pages = peer.pipeline(requests);
  if (!pages) return pages.status();
  for (size_t i = 0; i < all.size(); ++i) {
    const Reply& page = (*pages)[i];
    if (page.items.size() != 2) {
      return Status::refused(cat(peer.label(), " answers SLOTSSCAN ", all[i], " with '",
                                 printable(page.word()), "', so its keys cannot be listed"));
    }
    if (page.items[0].word() != "0" || !page.items[1].items.empty()) found.add(all[i]);
  }
  return found;
}

Result<std::string> follow_pika_slots(MoveContext& context, std::string_view step, Peer& server,
                                      const HostPort& master, const SlotSet& slots,
                                      const std::function<Status()>& before) {
  const auto rows = read_pika_slots(server, slots);
  if (!rows) return rows.status();
  SlotSet missing, open;
  for (const int slot : slots.to_vector()) {
    const auto row = rows->find(slot);
    if (row == rows->end()) {
      missing.add(slot);
    } else if (row->second.is_master) {
      open.add(slot);
    } else if (!follows(row->second, master)) {
      return Status::refused(cat("slot ", slot, " of ", server.label(), " follows ",
                                 row->second.master.text(), "; it must follow ", master.text(),
                                 " or nobody"));
    }
  }
  if (missing.empty() && open.empty()) return cat(server.label(), " does already");
  const auto full = pika_slots_with_keys(server, open);
  if (!full) return full.status();
  if (!full->empty()) {
    return Status::refused(cat("slots ", full->text(), " of ", server.label(),
                               " hold keys and follow nobody; if nobody needs them, PKCLUSTER "
                               "DELSLOTS ",
                               full->text(), " there, the run adds the slots again"));
  }
  Status status = before();
  if (status && !missing.empty()) status = add_slots(context, step, server, missing);
  if (!status) return status;
  missing.add(open);
  // From the beginning of a binlog that may have been cut off, nothing but a full copy is complete.
  const Argv command = {"PKCLUSTER",    "SLOTSSLAVEOF", master.host, std::to_string(master.port),
                        missing.text(), "force"};
  status = context.effect(
      step, cat("SLOTSSLAVEOF ", master.text(), " ", missing.text(), " force on ", server.label()),
      [&] { return server.expect(command).status(); });
  if (!status) return status;
  return cat("slots ", missing.text(), " of ", server.label(), " follow ", master.text());
}

}  // namespace sf
