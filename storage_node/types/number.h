// Numbers in values and arguments, by Redis's rules. Integers: common/base/strings.h parse_int64.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sf {

// strtod's grammar over the whole input: no leading blanks, no NaN, no overflow or underflow; hex
// and "inf" allowed.
std::optional<double> parse_double(std::string_view text);
// An end of a score range, which Redis reads less strictly: leading blanks, overflow to infinity,
// and nothing for 0.
std::optional<double> parse_score_end(std::string_view text);
// The same as parse_double for INCRBYFLOAT and HINCRBYFLOAT, which compute in long double.
std::optional<long double> parse_long_double(std::string_view text);
// 17 decimals, then trailing zeros and the point taken off; "-0" is "0". What INCRBYFLOAT stores.
std::string format_long_double(long double value);

}  // namespace sf
