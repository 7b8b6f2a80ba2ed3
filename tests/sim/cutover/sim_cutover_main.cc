// Seeded simulation of the cutover (tests/sim/README.md).
//
//   sim_cutover [--seeds 20000] [--first 1]     all of them, and a table
//   sim_cutover --seed N --trace                               one of them, told
//   sim_cutover --find 2000                                    of a mutant: ends well when a
//                                                                  seed has found it
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "common/base/strings.h"
#include "tests/sim/cutover/world.h"

namespace {

using sf::cutsim::Fault;

struct Options {
  uint64_t seeds = 20'000;
  uint64_t first = 1;
  bool trace = false;
  bool one = false;
  bool find = false;
};

struct Totals {
  std::array<uint64_t, sf::cutsim::kFaults> seeds_with{};
  uint64_t events = 0;
  uint64_t failed = 0;
};

// Read when a check inside the product ends the process.
volatile uint64_t running_seed = 0;
volatile bool finding = false;

void on_abort(int) {
  char text[128];
  int size = std::snprintf(text, sizeof text, "seed %llu ended in a failed SF_CHECK\n",
                           static_cast<unsigned long long>(running_seed));
  if (write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) _exit(3);
  _exit(finding ? 0 : 1);
}

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--trace") {
      options->trace = true;
      continue;
    }
    auto value = i + 1 < argc ? sf::parse_uint64(argv[i + 1]) : std::nullopt;
    if (!value) return false;
    ++i;
    if (word == "--seeds") {
      options->seeds = *value;
    } else if (word == "--first") {
      options->first = *value;
    } else if (word == "--find") {
      options->seeds = *value;
      options->find = true;
    } else if (word == "--seed") {
      options->first = *value;
      options->seeds = 1;
      options->one = true;
    } else {
      return false;
    }
  }
  return true;
}

bool run_seed(uint64_t seed, const Options& options, Totals* totals) {
  running_seed = seed;
  sf::cutsim::World world(seed, options.trace);
  bool fine = true;
  try {
    world.run();
  } catch (const std::exception& broken) {
    fine = false;
    ++totals->failed;
    std::printf("seed %llu: %s\n  replay: sim_cutover --seed %llu --trace\n",
                static_cast<unsigned long long>(seed), broken.what(),
                static_cast<unsigned long long>(seed));
  }
  totals->events += world.events();
  for (size_t i = 0; i < totals->seeds_with.size(); ++i) {
    if (world.had()[i]) ++totals->seeds_with[i];
  }
  return fine;
}

// False: a kind of fault was too rare for the run to mean anything.
bool print_table(const Totals& totals, uint64_t seeds) {
  bool enough = true;
  std::printf("%-22s %10s %8s\n", "in a seed", "seeds", "part");
  for (size_t i = 0; i < totals.seeds_with.size(); ++i) {
    const double part =
        100.0 * static_cast<double>(totals.seeds_with[i]) / static_cast<double>(seeds);
    std::printf("%-22s %10llu %7.1f%%\n", fault_name(static_cast<Fault>(i)),
                static_cast<unsigned long long>(totals.seeds_with[i]), part);
    enough = enough && part >= 5.0;
  }
  return enough;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: sim_cutover [--seeds N] [--first N] [--seed N] "
                 "[--trace] [--find N]\n");
    return 2;
  }
  std::signal(SIGABRT, on_abort);
  finding = options.find;
  Totals totals;
  uint64_t seeds = 0;
  while (seeds < options.seeds) {
    ++seeds;
    if (run_seed(options.first + seeds - 1, options, &totals)) continue;
    if (options.find) {
      std::printf("found after %llu seeds\n", static_cast<unsigned long long>(seeds));
      return 0;
    }
    if (totals.failed >= 20) break;
  }
  if (options.find) {
    std::printf("not found in %llu seeds\n", static_cast<unsigned long long>(seeds));
    return 1;
  }
  if (options.one) return totals.failed == 0 ? 0 : 1;
  const bool enough = print_table(totals, seeds) || seeds < 1'000;
  if (!enough) std::printf("a fault kind is in less than 5 %% of the seeds\n");
  std::printf("%llu seeds, %llu events, %llu failed, %.1f s of CPU\n",
              static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(totals.events),
              static_cast<unsigned long long>(totals.failed),
              static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  return totals.failed == 0 && enough ? 0 : 1;
}
