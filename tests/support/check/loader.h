// Writes or compares the standing data (dataset.h) through proxies, pipelined.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/strings.h"
#include "common/net/loop.h"
#include "tests/support/check/dataset.h"

namespace sf::check {

struct LoadResult {
  int64_t keys = 0;
  int64_t bad = 0;  // error replies when writing, differences when comparing
  std::vector<std::string> samples;
};

// Runs `count` keys over `connections` connections, `pipeline` keys at a time each. Blocks: runs
// its own loop. compare=false writes, true reads back and compares.
LoadResult run_dataset(const Dataset& dataset, uint64_t count, const std::vector<HostPort>& proxies,
                       int connections, int pipeline, bool compare);

}  // namespace sf::check
