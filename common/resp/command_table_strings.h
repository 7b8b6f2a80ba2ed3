// Command facts: Strings, bitmaps, HyperLogLog.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kStringsCommands[] = {
    {{"APPEND", 3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"BITCOUNT", -2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"BITFIELD", -2, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"BITFIELD_RO", -2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"BITOP", -4, kCmdWrite | kCmdDenyOom | kCmdOneReply, 2, -1, 1}},
    {{"BITPOS", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"DECR", 2, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"DECRBY", 3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"GET", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"GETBIT", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"GETDEL", 2, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"GETEX", -2, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"GETRANGE", 4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GETSET", 3, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"INCR", 2, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"INCRBY", 3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"INCRBYFLOAT", 3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"LCS", -3, kCmdRead | kCmdOneReply, 1, 2, 1}},
    {{"MGET", -2, kCmdRead | kCmdFast | kCmdOneReply, 1, -1, 1, SplitRule::kMget}},
    {{"MSET", -3, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, -1, 2, SplitRule::kMset}},
    {{"MSETNX", -3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, -1, 2}},
    {{"PFADD", -2, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"PFCOUNT", -2, kCmdRead | kCmdOneReply, 1, -1, 1}},
    {{"PFDEBUG", 3, kCmdWrite | kCmdAdmin | kCmdDenyOom | kCmdOneReply, 2, 2, 1}},
    {{"PFMERGE", -2, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, -1, 1}},
    {{"PFSELFTEST", 1, kCmdAdmin | kCmdKeyless | kCmdOneReply, 0, 0, 0}},
    {{"PSETEX", 4, kCmdNotedIf | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"SET", -3, kCmdNotedIf | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"SETBIT", 4, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"SETEX", 4, kCmdNotedIf | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"SETNX", 3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SETRANGE", 4, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"STRLEN", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SUBSTR", 4, kCmdRead | kCmdOneReply, 1, 1, 1}},
};

}  // namespace sf::catalog
