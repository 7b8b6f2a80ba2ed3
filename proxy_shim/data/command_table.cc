#include "proxy_shim/data/command_table.h"

#include <array>

namespace sf {

namespace {

constexpr std::array kForwardedWithoutCatalogKey = {std::string_view("SLOTSSCAN")};

bool is_forwardable(const CommandSpec& spec) {
  for (const auto name : kForwardedWithoutCatalogKey) {
    if (spec.name == name) return true;
  }
  const bool has_keys = spec.first_key != 0 || spec.is(kCmdMovableKeys);
  const bool shares_connection = spec.is(kCmdOneReply) && !spec.is(kCmdConnection);
  return has_keys && shares_connection && !spec.is(kCmdPubSub) && !spec.is(kCmdAdmin);
}

const char* refusal_of(const CommandSpec& spec) {
  if (spec.is(kCmdBlocking)) return "it would block every client that shares the connection";
  if (spec.is(kCmdPubSub)) return "publish and subscribe do not pass a slot move";
  if (spec.is(kCmdAdmin)) return "it is for the operator of the server itself";
  if (spec.is(kCmdConnection)) return "it changes the state of a shared connection";
  return "it names no key, and the shim serves the slots of two groups";
}

CommandRule rule_of(const CommandSpec& spec) {
  CommandRule rule;
  rule.is_write = !spec.is(kCmdRead) || spec.is(kCmdWrite);
  rule.all_slots = spec.is(kCmdScript);
  rule.blocked_by = rule.is_write ? kWriteBlocked : kReadBlocked;
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
  // XREAD and XREADGROUP block only when they say so: decided by their arguments.
  const bool may_block = spec.is(kCmdBlocking) && !spec.name.starts_with("XREAD");
  if (!is_forwardable(spec) || may_block) return rule;
  rule.handling = Handling::kForward;
  const bool is_single = spec.first_key > 0 && spec.last_key == spec.first_key &&
                         !spec.is(kCmdMovableKeys) && !rule.all_slots;
  if (is_single) rule.single_key = static_cast<uint8_t>(spec.first_key);
  return rule;
}

}  // namespace

CommandTable::CommandTable() : rules_(catalog_size()) {
  for (const CommandSpec& spec : all_commands()) rules_[spec.index] = rule_of(spec);
}

}  // namespace sf
