// Command facts: Pika alone (contracts/pika/commands.tsv).
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kPikaCommands[] = {
    {{"CACHE", -2, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"CLEARCACHE", 1, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"CLEARREPLICATIONID", 1, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"COMPACT", -1, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"COMPACTRANGE", 5, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"DBSLAVEOF", -2, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"DELBACKUP", 1, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"DELVX", 3, kCmdNoted | kCmdWrite | kCmdOneReply, 1, 1, 1}},
    {{"DISABLEWAL", 2, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"DISKRECOVERY", 1, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"DUMMY", -1, kCmdWrite | kCmdKeyless, 0, 0, 0}},
    {{"HSCANX", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"PADDING", 2, kCmdWrite | kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"PKCLUSTERADDSLOTS", -3, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"PKCLUSTERADDTABLE", 4, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"PKCLUSTERDELSLOTS", -3, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"PKCLUSTERDELTABLE", 3, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"PKCLUSTERINFO", -3, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"PKCLUSTERSLOTSSLAVEOF", -5, kCmdAdmin | kCmdKeyless | kCmdSlots | kCmdOneReply, 0, 0, 0}},
    {{"PKHRSCANRANGE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"PKHSCANRANGE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"PKPATTERNMATCHDEL", 3, kCmdWrite | kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"PKRSCANRANGE", -4, kCmdRead | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"PKSCANRANGE", -4, kCmdRead | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"PKSETEXAT", 4, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"PTYPE", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PURGELOGSTO", -2, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"SCANDB", -1, kCmdRead | kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"SCANX", -3, kCmdRead | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"TCMALLOC", -2, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
};

}  // namespace sf::catalog
