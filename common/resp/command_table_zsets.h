// Command facts: Sorted sets.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kZsetsCommands[] = {
    {{"BZMPOP", -5, kCmdWrite | kCmdBlocking | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys2},
    {{"BZPOPMAX", -3, kCmdWrite | kCmdBlocking | kCmdFast, 1, -2, 1}},
    {{"BZPOPMIN", -3, kCmdWrite | kCmdBlocking | kCmdFast, 1, -2, 1}},
    {{"ZADD", -4, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZCARD", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZCOUNT", 4, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZDIFF", -3, kCmdRead | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"ZDIFFSTORE", -4, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMovableKeys, 1, 1, 1},
     KeyRule::kDestNumkeys2},
    {{"ZINCRBY", 4, kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZINTER", -3, kCmdRead | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"ZINTERCARD", -3, kCmdRead | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"ZINTERSTORE", -4, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMovableKeys, 1, 1, 1},
     KeyRule::kDestNumkeys2},
    {{"ZLEXCOUNT", 4, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZMPOP", -4, kCmdWrite | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"ZMSCORE", -3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZPOPMAX", -2, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZPOPMIN", -2, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZRANDMEMBER", -2, kCmdRead | kCmdOneReply | kCmdRandom, 1, 1, 1}},
    {{"ZRANGE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZRANGEBYLEX", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZRANGEBYSCORE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZRANGESTORE", -5, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 2, 1}},
    {{"ZRANK", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZREM", -3, kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZREMRANGEBYLEX", 4, kCmdWrite | kCmdOneReply, 1, 1, 1}},
    {{"ZREMRANGEBYRANK", 4, kCmdWrite | kCmdOneReply, 1, 1, 1}},
    {{"ZREMRANGEBYSCORE", 4, kCmdWrite | kCmdOneReply, 1, 1, 1}},
    {{"ZREVRANGE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZREVRANGEBYLEX", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZREVRANGEBYSCORE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZREVRANK", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZSCAN", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"ZSCORE", 3, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"ZUNION", -3, kCmdRead | kCmdOneReply | kCmdMovableKeys, 0, 0, 0}, KeyRule::kNumkeys1},
    {{"ZUNIONSTORE", -4, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMovableKeys, 1, 1, 1},
     KeyRule::kDestNumkeys2},
};

}  // namespace sf::catalog
