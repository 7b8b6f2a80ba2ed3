// Command facts: Geo indexes and streams.
#pragma once

#include "common/resp/command_row.h"

namespace sf::catalog {

inline constexpr CommandRow kGeoStreamsCommands[] = {
    {{"GEOADD", -5, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 1, 1}},
    {{"GEODIST", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GEOHASH", -2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GEOPOS", -2, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GEORADIUS", -6, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMovableKeys, 1, 1, 1},
     KeyRule::kGeoStore6},
    {{"GEORADIUS_RO", -6, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GEORADIUSBYMEMBER", -5, kCmdWrite | kCmdDenyOom | kCmdOneReply | kCmdMovableKeys, 1, 1, 1},
     KeyRule::kGeoStore5},
    {{"GEORADIUSBYMEMBER_RO", -5, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GEOSEARCH", -7, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"GEOSEARCHSTORE", -8, kCmdWrite | kCmdDenyOom | kCmdOneReply, 1, 2, 1}},
    {{"XACK", -4, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XADD", -5, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XAUTOCLAIM", -6, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XCLAIM", -6, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XDEL", -3, kCmdNoted | kCmdWrite | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XLEN", 2, kCmdRead | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XPENDING", -3, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"XRANGE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"XREAD", -4, kCmdRead | kCmdBlocking | kCmdMovableKeys, 0, 0, 0}, KeyRule::kStreams},
    {{"XREADGROUP", -7, kCmdNoted | kCmdWrite | kCmdBlocking | kCmdMovableKeys, 0, 0, 0},
     KeyRule::kStreams},
    {{"XREVRANGE", -4, kCmdRead | kCmdOneReply, 1, 1, 1}},
    {{"XSETID", -3, kCmdNoted | kCmdWrite | kCmdDenyOom | kCmdFast | kCmdOneReply, 1, 1, 1}},
    {{"XTRIM", -4, kCmdNoted | kCmdWrite | kCmdOneReply, 1, 1, 1}},
};

}  // namespace sf::catalog
