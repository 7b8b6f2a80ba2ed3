// Runs a fuzz target: inputs made from rising seeds, by mutation, until the time is over. A failed
// check says the seed, which alone repeats the input: `<target> --seed N --once`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace sf::fuzz {

// Flags: --seed N (first seed, 1), --seconds S (5), --long (600 seconds), --once (one seed).
// `body` is called with a generator made of the seed. Returns main()'s value.
int run(const char* name, int argc, char** argv, const std::function<void(Random&)>& body);

// Bytes changed, removed, put in, doubled or swapped: up to `most` times.
void spoil(Random& random, std::string& bytes, uint64_t most);

// A word of a request: a number near a limit, empty, binary, or one of `words`.
std::string some_word(Random& random, const std::vector<std::string>& words);

// A whole request in RESP, or now and then an inline line.
std::string some_request(Random& random, const std::vector<std::string>& names,
                         const std::vector<std::string>& words);

// A valid reply of any type, nested up to `depth`.
std::string some_reply(Random& random, int depth);

// Random places to cut `size` bytes at, ascending, the last one `size`.
std::vector<size_t> some_cuts(Random& random, size_t size);

}  // namespace sf::fuzz
