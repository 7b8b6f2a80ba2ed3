// Command facts: Hashes.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kHashesCommands[] = {
    {{"HDEL", -3, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HEXISTS", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HGET", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HGETALL", 2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"HINCRBY", 4, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HINCRBYFLOAT", 4, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HKEYS", 2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"HLEN", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HMGET", -3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HMSET", -4, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HRANDFIELD", -2, kCmdRead | kCmdOneReply | kCmdRandom, 1, 1, 1}},
    {{"HSCAN", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"HSET", -4, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HSETNX", 4, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HSTRLEN", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"HVALS", 2, kCmdRead | kCmdOneReply, 1, 1, 1}},
};

}  // namespace sf::catalog
