#include "proxy_shim/data/migration_commands.h"

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf {

namespace {

std::string error_reply(std::string_view text) {
  std::string out;
  resp::error(out, text);
  return out;
}

bool is_final(const Routes& routes, int slot) {
  return (routes.flags(slot) & kRouteFinal) != 0;
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
               wanted, "; make it FINAL first");
  }
  if (wanted != owner) {
    return cat("ERR slot ", slot, " belongs to ", owner, ", not to ", wanted,
               "; hand it back to its owner");
  }
  return {};
}

// [2, ...] is decided by the forwarder; here the wrapper only tells the two cases apart.
MigrationAnswer judge_wrapper(std::span<const std::string_view> argv, const Routes& routes) {
  const int slot = slot_of(argv[1]);
  const std::string refusal = routes.refusal(slot, false);
  if (!refusal.empty()) return {MigrationAnswer::Kind::kNow, error_reply(refusal)};
  if (!is_final(routes, slot)) return {MigrationAnswer::Kind::kExecute, {}};
  std::string out;
  resp::array(out, 2);
  resp::integer(out, 0);
  resp::bulk(out, cat("slot ", slot, " is at ", routes.table().new_side.address.text()));
  return {MigrationAnswer::Kind::kNow, std::move(out)};
}

MigrationAnswer judge_slot(const Routes& routes, std::string_view slot_text, std::string_view host,
                           std::string_view port) {
  const auto slot = parse_int64(slot_text);
  if (!slot || *slot < 0 || *slot >= kSlotCount) {
    return {MigrationAnswer::Kind::kNow,
            error_reply(cat("ERR invalid slot ", printable(slot_text), ", expected 0 to 1023"))};
  }
  const std::string why = objection(routes, static_cast<int>(*slot), host, port);
  if (!why.empty()) return {MigrationAnswer::Kind::kPaced, error_reply(why)};
  return {MigrationAnswer::Kind::kNow, "*2\r\n:0\r\n:0\r\n"};
}

// One key: SLOTSMGRTONE, SLOTSMGRTTAGONE. Any integer means "go to the target" (T3).
MigrationAnswer judge_key(const Routes& routes, std::string_view key, std::string_view host,
                          std::string_view port) {
  const std::string why = objection(routes, slot_of(key), host, port);
  if (!why.empty()) return {MigrationAnswer::Kind::kNow, error_reply(why)};
  return {MigrationAnswer::Kind::kNow, ":0\r\n"};
}

}  // namespace

MigrationAnswer judge_migration(const CommandSpec& spec, std::span<const std::string_view> argv,
                                const Routes& routes) {
  const std::string_view name = spec.name;
  if (name == "SLOTSMGRT-EXEC-WRAPPER" && argv.size() >= 3) return judge_wrapper(argv, routes);
  const bool is_async = name.ends_with("-ASYNC");
  // host port timeout slot | host port timeout maxbulks maxbytes slot numkeys
  const size_t at = is_async ? 6 : 4;
  if ((name.starts_with("SLOTSMGRTTAGSLOT") || name.starts_with("SLOTSMGRTSLOT")) &&
      argv.size() > at) {
    return judge_slot(routes, argv[at], argv[1], argv[2]);
  }
  if ((name == "SLOTSMGRTTAGONE" || name == "SLOTSMGRTONE") && argv.size() > at) {
    return judge_key(routes, argv[at], argv[1], argv[2]);
  }
  return {MigrationAnswer::Kind::kNow,
          error_reply(cat("ERR ", name,
                          " is refused: slotferry-shim holds no data of its own and takes none; "
                          "send it to the server that shall have the keys"))};
}

}  // namespace sf
