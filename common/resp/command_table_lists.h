// Command facts: Lists.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kListsCommands[] = {
    {{"BLMOVE", 6, kCmdWrite | kCmdBlocking | kCmdDenyOom, 1, 2, 1}},
    {{"BLMPOP", -5, kCmdWrite | kCmdBlocking | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys2},
    {{"BLPOP", -3, kCmdWrite | kCmdBlocking, 1, -2, 1}},
    {{"BRPOP", -3, kCmdWrite | kCmdBlocking, 1, -2, 1}},
    {{"BRPOPLPUSH", 4, kCmdWrite | kCmdBlocking | kCmdDenyOom, 1, 2, 1}},
    {{"LINDEX", 3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"LINSERT", 5, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"LLEN", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"LMOVE", 5, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 2, 1}},
    {{"LMPOP", -4, kCmdWrite | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"LPOP", -2, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"LPOS", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"LPUSH", -3, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"LPUSHX", -3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"LRANGE", 4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"LREM", 4, kCmdWrite | kCmdOneReply, 1, 1, 1}},
    {{"LSET", 4, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"LTRIM", 4, kCmdWrite | kCmdOneReply, 1, 1, 1}},
    {{"RPOP", -2, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"RPOPLPUSH", 3, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 2, 1}},
    {{"RPUSH", -3, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"RPUSHX", -3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
};

}  // namespace sf::catalog
