// Command facts: Keys whatever their type.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kKeysCommands[] = {
    {{"COPY", -3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 2, 1}},
    {{"DBSIZE", 1, kCmdRead | kCmdKeyless | kCmdFast | kCmdOneReply, 0, 0, 0}},
    {{"DEL", -2, kCmdWrite | kCmdOneReply, 1, -1, 1, SplitRule::kSum}},
    {{"DUMP", 2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"EXISTS", -2, kCmdRead | kCmdFast | kCmdOneReply, 1, -1, 1, SplitRule::kSum}},
    {{"EXPIRE", -3, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"EXPIREAT", -3, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"EXPIRETIME", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"FLUSHALL", -1, kCmdWrite | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"FLUSHDB", -1, kCmdWrite | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"KEYS", 2, kCmdRead | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"MIGRATE", -6, kCmdWrite | kCmdOneReply | kCmdMovableKeys, 3, 3, 1}, KeyRule::kMigrate},
    {{"MOVE", 3, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PERSIST", 2, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PEXPIRE", -3, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PEXPIREAT", -3, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PEXPIRETIME", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PTTL", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"RANDOMKEY", 1, kCmdRead | kCmdKeyless | kCmdOneReply | kCmdRandom, 0, 0, 0}},
    {{"RENAME", 3, kCmdNoted | kCmdWrite | kCmdOneReply, 1, 2, 1}},
    {{"RENAMENX", 3, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 2, 1}},
    {{"RESTORE", -4, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"RESTORE-ASKING", -4, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"SCAN", -2, kCmdRead | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"SORT", -2, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMovableKeys, 1, 1, 1},
     KeyRule::kSort},
    {{"SORT_RO", -2, kCmdRead | kCmdOneReply | kCmdMovableKeys, 1, 1, 1}, KeyRule::kSort},
    {{"SWAPDB", 3, kCmdWrite | kCmdKeyless | kCmdFast | kCmdOneReply, 0, 0, 0}},
    {{"TOUCH", -2, kCmdRead | kCmdFast | kCmdOneReply, 1, -1, 1, SplitRule::kSum}},
    {{"TTL", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"TYPE", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"UNLINK", -2, kCmdWrite | kCmdFast | kCmdOneReply, 1, -1, 1, SplitRule::kSum}},
};

}  // namespace sf::catalog
