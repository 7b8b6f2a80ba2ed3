#include "proxy_shim/data/migration_commands.h"

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf {

namespace {

MigrationAnswer now(std::string reply) {
  return {MigrationAnswer::Kind::kNow, std::move(reply)};
}

std::string error_reply(std::string_view text) {
  std::string out;
  resp::error(out, text);
  return out;
}

bool is_final(const Routes& routes, int slot) {
  return (routes.flags(slot) & kRouteFinal) != 0;
}

// What the operator has to do before `slot` may leave the shim.
std::string_view way_out(SlotPhase phase) {
  switch (phase) {
    case SlotPhase::kStay:
      return "it stays with its group; map it back with slots-assign (slotferry handback, abort)";
    case SlotPhase::kNew:
      return "make it FINAL first (slotferry handback)";
    default:
      return "cut it over and make it FINAL first, or map it back with slots-assign (slotferry "
             "abort)";
  }
}

// Why `slot` may not be said to be at host:port; "" if it may (I7).
std::string objection(const Routes& routes, int slot, std::string_view host,
                      std::string_view port) {
  const std::string wanted = cat(host, ":", port);
  const std::string refusal = routes.refusal(slot, false);
  if (!refusal.empty()) return refusal;
  const std::string owner = routes.address(Routes::side_of(routes.flags(slot))).address.text();
  if (!is_final(routes, slot)) {
    return cat("ERR slot ", slot, " is not handed back yet: its owner is ", owner, ", asked for ",
               wanted, "; ", way_out(routes.table().phase[static_cast<size_t>(slot)]));
  }
  if (wanted != owner) {
    return cat("ERR slot ", slot, " belongs to ", owner, ", not to ", wanted,
               "; hand it back to its owner");
  }
  return {};
}

// Whatever is not FINAL goes the way of an ordinary request, so that a client is told what it would
// be told without the wrapper, its code first (TRYAGAIN in doubt), and not by an error of the
// wrapper itself, which the proxy wraps into a text of its own (T13).
MigrationAnswer judge_wrapper(std::span<const std::string_view> argv, const Routes& routes) {
  const int slot = slot_of(argv[1]);
  if (!is_final(routes, slot)) return {MigrationAnswer::Kind::kExecute, {}};
  std::string out;
  resp::array(out, 2);
  resp::integer(out, 0);
  resp::bulk(out, cat("slot ", slot, " is at ", routes.table().new_side.address.text()));
  return now(std::move(out));
}

MigrationAnswer judge_slot(const Routes& routes, std::string_view slot_text, std::string_view host,
                           std::string_view port) {
  const auto slot = parse_int64(slot_text);
  if (!slot || *slot < 0 || *slot >= kSlotCount) {
    return now(error_reply(cat("ERR invalid slot ", printable(slot_text), ", expected 0 to 1023")));
  }
  const std::string why = objection(routes, static_cast<int>(*slot), host, port);
  if (!why.empty()) return {MigrationAnswer::Kind::kPaced, error_reply(why)};
  return now("*2\r\n:0\r\n:0\r\n");
}

// SLOTSMGRTONE, SLOTSMGRTTAGONE and their forms of several keys. Any integer means "go to the
// target" (T3).
MigrationAnswer judge_keys(const Routes& routes, std::span<const std::string_view> keys,
                           std::string_view host, std::string_view port) {
  for (const std::string_view key : keys) {
    const std::string why = objection(routes, slot_of(key), host, port);
    if (!why.empty()) return now(error_reply(why));
  }
  return now(":0\r\n");
}

// Pika's words for a server that migrates nothing, which is the truth here.
MigrationAnswer idle_status() {
  std::string out;
  resp::array(out, 5);
  for (const char* line : {"dest server: :-1", "slot number: -1", "migrating  : no",
                           "moved keys : -1", "remain keys: -1"}) {
    resp::bulk(out, line);
  }
  return now(std::move(out));
}

}  // namespace

MigrationAnswer judge_migration(const CommandSpec& spec, std::span<const std::string_view> argv,
                                const Routes& routes) {
  const std::string_view name = spec.name;
  if (name == "SLOTSMGRT-EXEC-WRAPPER") return judge_wrapper(argv, routes);
  if (name == "SLOTSMGRT-ASYNC-STATUS") return idle_status();
  if (name == "SLOTSMGRT-ASYNC-CANCEL") return now("+OK\r\n");
  const bool is_async = name.ends_with("-ASYNC");
  // host port timeout slot | host port timeout maxbulks maxbytes slot numkeys
  const size_t at = is_async ? 6 : 4;
  if (name.starts_with("SLOTSMGRTTAGSLOT") || name.starts_with("SLOTSMGRTSLOT")) {
    return judge_slot(routes, argv[at], argv[1], argv[2]);
  }
  if (name.starts_with("SLOTSMGRTTAGONE") || name.starts_with("SLOTSMGRTONE")) {
    return judge_keys(routes, argv.subspan(at), argv[1], argv[2]);
  }
  return now(error_reply(cat("ERR ", name,
                             " is refused: slotferry-shim holds no data of its own and takes none; "
                             "send it to the server that shall have the keys")));
}

}  // namespace sf
