#include "proxy_shim/data/command_table.h"

#include <algorithm>

#include "common/base/strings.h"

namespace sf {

namespace {

// XREAD and XREADGROUP block only when their arguments say so, which the forwarder looks at.
bool may_not_block(const CommandSpec& spec) {
  return spec.name == "XREAD" || spec.name == "XREADGROUP";
}

bool is_forwardable(const CommandSpec& spec) {
  if (spec.name == "SLOTSSCAN") return true;  // its slot is an argument
  const bool has_keys = spec.first_key != 0 || spec.is(kCmdMovableKeys);
  const bool shares_connection = spec.is(kCmdOneReply) || may_not_block(spec);
  const bool is_special = spec.is(kCmdConnection) || spec.is(kCmdPubSub) || spec.is(kCmdAdmin) ||
                          (spec.is(kCmdBlocking) && !may_not_block(spec));
  return has_keys && shares_connection && !is_special;
}

const char* refusal_of(const CommandSpec& spec) {
  if (spec.is(kCmdBlocking)) return "it would block every client that shares the connection";
  if (spec.is(kCmdPubSub)) return "publish and subscribe do not pass a slot move";
  if (spec.is(kCmdAdmin)) return "it is for the operator of the server itself";
  if (spec.is(kCmdConnection)) return "it changes the state of a shared connection";
  return "it names no key, and the shim serves the slots of two groups";
}

bool is_hyperloglog(const CommandSpec& spec) {
  return spec.name == "PFADD" || spec.name == "PFCOUNT" || spec.name == "PFMERGE";
}

bool is_range(const CommandSpec& spec) {
  return spec.name == "SETRANGE" || spec.name == "GETRANGE" || spec.name == "SUBSTR";
}

// Nothing in a string can be there, its size is at most as much.
constexpr int64_t kStringMax = 512L << 20;

bool is_huge(std::string_view number) {
  const auto value = parse_int64(number);
  return !value || *value > kStringMax || *value < -kStringMax;
}

CommandRule rule_of(const CommandSpec& spec) {
  CommandRule rule;
  rule.is_write = !spec.is(kCmdRead) || spec.is(kCmdWrite);
  rule.all_slots = spec.is(kCmdScript);
  rule.blocked_by = rule.is_write ? kWriteBlocked | kRouteNoted : kReadBlocked;
  rule.why = refusal_of(spec);
  if (const LocalEntry* entry = find_local_command(spec.name)) {
    rule.handling = Handling::kLocal;
    rule.local = entry->run;
    rule.in_multi = entry->in_multi;
    rule.wants_stats = entry->wants_stats;
    return rule;
  }
  if (spec.is(kCmdMigration)) {
    rule.handling = Handling::kMigration;
    return rule;
  }
  if (!is_forwardable(spec)) return rule;
  rule.handling = Handling::kForward;
  const bool is_single = spec.first_key > 0 && spec.last_key == spec.first_key &&
                         !spec.is(kCmdMovableKeys) && !rule.all_slots;
  rule.is_guarded = is_hyperloglog(spec) || is_range(spec);
  if (is_single && !rule.is_guarded) rule.single_key = static_cast<uint8_t>(spec.first_key);
  return rule;
}

}  // namespace

CommandTable::CommandTable() : rules_(catalog_size()) {
  for (const CommandSpec& spec : all_commands()) rules_[spec.index] = rule_of(spec);
}

bool is_noted(const CommandSpec* spec, std::span<const std::string_view> argv, bool timed) {
  if (spec == nullptr || spec->is(kCmdNoted)) return true;
  if (!spec->is(kCmdNotedIf)) return false;
  if (spec->name != "SET") return timed;
  // SET: a time alone is replicated as an absolute one.
  for (size_t i = 3; i < argv.size(); ++i) {
    const bool is_time = equals_ignore_case(argv[i], "EX") || equals_ignore_case(argv[i], "PX") ||
                         equals_ignore_case(argv[i], "EXAT") || equals_ignore_case(argv[i], "PXAT");
    if (timed || !is_time) return true;
    ++i;
  }
  return false;
}

// contracts/pika 6; cases C01, C16: PFCOUNT of an ordinary string and GETRANGE or SETRANGE with
// offsets no string has end a Pika 3.5 server.
std::string guard_objection(const CommandSpec& spec, std::span<const std::string_view> argv) {
  if (is_hyperloglog(spec)) {
    return cat("ERR '", to_lower(spec.name),
               "' is refused by slotferry-shim: on a key that holds an ordinary string it ends the "
               "server behind (guard pika-3.5; SHIM GUARD off lets it pass)");
  }
  if (!is_range(spec)) return {};
  const size_t numbers = spec.name == "SETRANGE" ? 1 : 2;
  for (size_t i = 2; i < 2 + numbers && i < argv.size(); ++i) {
    if (!is_huge(argv[i])) continue;
    return cat("ERR '", to_lower(spec.name), "' with offset ", printable(argv[i]),
               " is refused by slotferry-shim: no string is that long, and it may end the server "
               "behind (guard pika-3.5; SHIM GUARD off lets it pass)");
  }
  return {};
}

}  // namespace sf
