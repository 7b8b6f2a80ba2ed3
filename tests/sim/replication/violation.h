// A promise of the design that was broken: ends the seed, and is printed with the line that replays
// it. Exceptions are for test programs only.
#pragma once

#include <stdexcept>

namespace sf::sim {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace sf::sim
