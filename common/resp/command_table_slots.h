// Command facts: Codis's and Pika's slot commands (contracts/codis 1.6, 2, 3.3).
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kSlotsCommands[] = {
    {{"SLOTSCHECK", -1, kCmdRead | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSCLEANUP", -2, kCmdWrite | kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSCLEANUPOFF", -1, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSDEL", -2, kCmdWrite | kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSHASHKEY", -2, kCmdFast | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSINFO", -1, kCmdRead | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSMAPPING", -1, kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSMGRT-ASYNC-CANCEL", 1,
      kCmdAdmin | kCmdKeyless | kCmdOneReply | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSMGRT-ASYNC-FENCE", 1,
      kCmdAdmin | kCmdBlocking | kCmdKeyless | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSMGRT-ASYNC-STATUS", 1,
      kCmdAdmin | kCmdKeyless | kCmdOneReply | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSMGRT-EXEC-WRAPPER", -3, kCmdWrite | kCmdOneReply | kCmdMigration | kCmdSlots, 1, 1, 1}},
    {{"SLOTSMGRTONE", 5, kCmdWrite | kCmdOneReply | kCmdMigration | kCmdSlots, 4, 4, 1}},
    {{"SLOTSMGRTONE-ASYNC", -7, kCmdWrite | kCmdOneReply | kCmdMigration | kCmdSlots, 6, -1, 1}},
    {{"SLOTSMGRTSLOT", 5, kCmdWrite | kCmdKeyless | kCmdOneReply | kCmdMigration | kCmdSlots, 0, 0,
      0}},
    {{"SLOTSMGRTSLOT-ASYNC", 8, kCmdWrite | kCmdKeyless | kCmdOneReply | kCmdMigration | kCmdSlots,
      0, 0, 0}},
    {{"SLOTSMGRTTAGONE", 5, kCmdWrite | kCmdOneReply | kCmdMigration | kCmdSlots, 4, 4, 1}},
    {{"SLOTSMGRTTAGONE-ASYNC", -7, kCmdWrite | kCmdOneReply | kCmdMigration | kCmdSlots, 6, -1, 1}},
    {{"SLOTSMGRTTAGSLOT", 5, kCmdWrite | kCmdKeyless | kCmdOneReply | kCmdMigration | kCmdSlots, 0,
      0, 0}},
    {{"SLOTSMGRTTAGSLOT-ASYNC", 8,
      kCmdWrite | kCmdKeyless | kCmdOneReply | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSRELOAD", 1, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSRELOADOFF", -1, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"SLOTSRESTORE", -4, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMigration | kCmdSlots, 1, -1,
      3}},
    {{"SLOTSRESTORE-ASYNC", -3,
      kCmdWrite | kCmdConnection | kCmdDenyOom | kCmdMigration | kCmdSlots, 2, 2, 1}},
    {{"SLOTSRESTORE-ASYNC-ACK", 3,
      kCmdAdmin | kCmdConnection | kCmdKeyless | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSRESTORE-ASYNC-AUTH", 2,
      kCmdNoAuth | kCmdConnection | kCmdKeyless | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSRESTORE-ASYNC-AUTH2", 3,
      kCmdNoAuth | kCmdConnection | kCmdKeyless | kCmdMigration | kCmdSlots, 0, 0, 0}},
    {{"SLOTSRESTORE-ASYNC-SELECT", 2, kCmdConnection | kCmdKeyless | kCmdMigration | kCmdSlots, 0,
      0, 0}},
    {{"SLOTSSCAN", -3, kCmdRead | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
};

}  // namespace sf::catalog
