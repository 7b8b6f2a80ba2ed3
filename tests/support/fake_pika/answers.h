// Replies of the fake Pika, and the ranges its commands take.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf::fake_pika {

inline std::string ok() {
  return "+OK\r\n";
}
inline std::string error(std::string_view text) {
  return cat("-ERR ", text, "\r\n");
}
inline std::string bulk(std::string_view text) {
  std::string out;
  resp::bulk(out, text);
  return out;
}

// "0-3,8": the numbers below `most`; empty if it is no such range.
inline std::vector<int> range_of(const std::string& text, int most) {
  std::vector<int> out;
  for (std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-');
    const auto first = parse_int64(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int64(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= most) return {};
    for (int64_t slot = *first; slot <= *last; ++slot) out.push_back(static_cast<int>(slot));
  }
  return out;
}

}  // namespace sf::fake_pika
