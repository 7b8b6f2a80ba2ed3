#include "migrator/pika_slots.h"

#include <optional>

namespace sf {
namespace {

Status odd_row(std::string_view line) {
  return Status::corrupt(cat("'", printable(line), "' in PKCLUSTER INFO SLOT is not understood"));
}

// "(db0:905) binlog_offset=3 417,safety_purge=none"
Result<std::pair<int, PikaSlotRow>> parse_head(std::string_view line) {
  constexpr std::string_view kWord = "binlog_offset=";
  const size_t colon = line.find(':');
  const size_t close = line.find(')');
  const size_t word = line.find(kWord);
  if (colon == std::string_view::npos || close == std::string_view::npos || colon > close ||
      word == std::string_view::npos) {
    return odd_row(line);
  }
  const auto slot = parse_int64(line.substr(colon + 1, close - colon - 1));
  std::string_view end = line.substr(word + kWord.size());
  end = end.substr(0, end.find(','));
  const size_t blank = end.find(' ');
  if (!slot || *slot < 0 || *slot >= kSlotCount || blank == std::string_view::npos) {
    return odd_row(line);
  }
  const auto file = parse_int64(end.substr(0, blank));
  const auto offset = parse_int64(trim(end.substr(blank + 1)));
  if (!file || !offset) return odd_row(line);
  PikaSlotRow row;
  row.file = *file;
  row.offset = *offset;
  return std::pair(static_cast<int>(*slot), row);
}

struct Pending {
  int slot = -1;
  PikaSlotRow row;
  std::string role;
  bool has_master = false;
};

Status take_line(std::string_view line, Pending& pending) {
  // A slave that has slaves of its own is told as a master, a rule, and a slave (ADR 0025).
  if (pending.slot >= 0 && trim(line).find_first_not_of('-') == std::string_view::npos) {
    return Status::ok();
  }
  const size_t colon = line.find(':');
  if (pending.slot < 0 || colon == std::string_view::npos) return odd_row(line);
  const std::string_view name = trim(line.substr(0, colon));
  const std::string_view value = trim(line.substr(colon + 1));
  if (name == "Role") {
    pending.role = std::string(value);
  } else if (name == "master") {
    const auto master = parse_host_port(value);
    if (!master) return odd_row(line);
    pending.row.master = *master;
    pending.has_master = true;
  } else if (name == "slave status") {
    pending.row.state = std::string(value);
  } else if (name.starts_with("slave[")) {
    pending.row.replicas.emplace_back(value);
  }
  return Status::ok();
}

Status keep(Pending& pending, std::map<int, PikaSlotRow>& rows) {
  if (pending.slot < 0) return Status::ok();
  PikaSlotRow& row = pending.row;
  row.is_slave = pending.role == "Slave";
  const bool whole = row.is_slave ? pending.has_master && !row.state.empty()
                                  : pending.role == "Master" && !pending.has_master;
  if (!whole) {
    return Status::corrupt(cat("PKCLUSTER INFO SLOT says role '", printable(pending.role),
                               "' of slot ", pending.slot, " and not what belongs to it"));
  }
  rows[pending.slot] = std::move(row);
  pending = {};
  return Status::ok();
}

Status add_slots(MoveContext& context, std::string_view step, Peer& server, const SlotSet& slots) {
  return context.effect(step, cat("PKCLUSTER ADDSLOTS ", slots.text(), " on ", server.label()),
                        [&] {
                          return server.expect({"PKCLUSTER", "ADDSLOTS", slots.text()}).status();
                        });
}

}  // namespace

Result<std::map<int, PikaSlotRow>> parse_pika_slot_rows(std::string_view text) {
  std::map<int, PikaSlotRow> rows;
  Pending pending;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty()) continue;
    if (line[0] != '(') {
      const Status taken = take_line(line, pending);
      if (!taken) return taken;
      continue;
    }
    const Status kept = keep(pending, rows);
    if (!kept) return kept;
    auto head = parse_head(line);
    if (!head) return head.status();
    pending.slot = head->first;
    pending.row = std::move(head->second);
  }
  const Status kept = keep(pending, rows);
  if (!kept) return kept;
  return rows;
}

Result<std::map<int, PikaSlotRow>> read_pika_slots(Peer& peer, const SlotSet& slots) {
  const auto reply = peer.expect({"PKCLUSTER", "INFO", "SLOT", slots.text()});
  if (!reply) return reply.status();
  auto rows = parse_pika_slot_rows(reply->text);
  if (!rows) return rows.status().with_context(peer.label());
  std::erase_if(*rows, [&](const auto& row) { return !slots.contains(row.first); });
  return rows;
}

Result<std::map<int, PikaSlotRow>> need_pika_slots(Peer& peer, const SlotSet& slots) {
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

bool follows(const PikaSlotRow& row, const HostPort& master) {
  if (!row.is_slave) return false;
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
    } else if (!row->second.is_slave) {
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
