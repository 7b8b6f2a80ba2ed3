// Command facts: Sets.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kSetsCommands[] = {
    {{"SADD", -3, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SCARD", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SDIFF", -2, kCmdRead | kCmdOneReply, 1, -1, 1}},
    {{"SDIFFSTORE", -3, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, -1, 1}},
    {{"SINTER", -2, kCmdRead | kCmdOneReply, 1, -1, 1}},
    {{"SINTERCARD", -3, kCmdRead | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"SINTERSTORE", -3, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, -1, 1}},
    {{"SISMEMBER", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SMEMBERS", 2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"SMISMEMBER", -3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SMOVE", 4, kCmdWrite | kCmdFast | kCmdOneReply, 1, 2, 1}},
    {{"SPOP", -2, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply | kCmdRandom, 1, 1, 1}},
    {{"SRANDMEMBER", -2, kCmdRead | kCmdOneReply | kCmdRandom, 1, 1, 1}},
    {{"SREM", -3, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"SSCAN", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"SUNION", -2, kCmdRead | kCmdOneReply, 1, -1, 1}},
    {{"SUNIONSTORE", -3, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, -1, 1}},
};

}  // namespace sf::catalog
