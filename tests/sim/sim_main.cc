#include "tests/sim/sim_main.h"

#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "common/base/strings.h"

namespace sf {
namespace {

constexpr double kRareHad = 5.0;  // percent of the seeds below which a run means nothing
constexpr double kRareMattered = 1.0;
constexpr uint64_t kFailedMost = 20;

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

bool parse(int argc, char** argv, SimOptions* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--trace") {
      options->trace = true;
      continue;
    }
    auto value = i + 1 < argc ? parse_uint64(argv[i + 1]) : std::nullopt;
    if (!value) return false;
    ++i;
    if (word == "--seeds") {
      options->seeds = *value;
    } else if (word == "--first") {
      options->first = *value;
    } else if (word == "--events") {
      options->events = static_cast<int>(*value);
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

class Totals {
 public:
  Totals(const SimProgram& program, int events)
      : program_(program),
        counted_(events),
        had_(program.faults.size()),
        mattered_(program.faults.size()) {}

  void add(uint64_t seed, const SimOutcome& outcome) {
    ++seeds_;
    events_ += outcome.events;
    knows_mattered_ = !outcome.mattered.empty();
    for (size_t i = 0; i < had_.size(); ++i) {
      if (outcome.had[i]) ++had_[i];
      if (knows_mattered_ && outcome.mattered[i]) ++mattered_[i];
    }
    if (outcome.broken.empty()) return;
    ++failed_;
    const auto number = static_cast<unsigned long long>(seed);
    std::printf("seed %llu: %s\n  replay: %s --seed %llu --events %d --trace\n", number,
                outcome.broken.c_str(), program_.name, number, counted_);
  }
  uint64_t failed() const { return failed_; }

  // False: a kind of fault was too rare for the run to mean anything.
  bool print() const {
    bool enough = true;
    std::printf("%-26s %9s %7s %9s\n", "in a seed", "seeds", "part",
                knows_mattered_ ? "mattered" : "");
    for (size_t i = 0; i < had_.size(); ++i) {
      std::printf("%-26s %9llu %6.1f%%", program_.faults[i].c_str(),
                  static_cast<unsigned long long>(had_[i]), part(had_[i]));
      enough = enough && part(had_[i]) >= kRareHad;
      if (knows_mattered_) {
        std::printf(" %8.1f%%", part(mattered_[i]));
        enough = enough && part(mattered_[i]) >= kRareMattered;
      }
      std::printf("\n");
    }
    if (seeds_ < 1'000) enough = true;
    if (!enough) {
      std::printf(
          "a fault kind is in less than %.0f %% of the seeds, or matters in less than %.0f\n",
          kRareHad, kRareMattered);
    }
    std::printf("%llu seeds, %llu events, %llu failed, %.1f s of CPU\n",
                static_cast<unsigned long long>(seeds_), static_cast<unsigned long long>(events_),
                static_cast<unsigned long long>(failed_),
                static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
    return enough;
  }

 private:
  double part(uint64_t seeds) const {
    return 100.0 * static_cast<double>(seeds) / static_cast<double>(seeds_);
  }

  const SimProgram& program_;
  const int counted_;
  std::vector<uint64_t> had_, mattered_;
  bool knows_mattered_ = false;
  uint64_t seeds_ = 0, events_ = 0, failed_ = 0;
};

int find(const SimProgram& program, const SimOptions& options) {
  for (uint64_t i = 0; i < options.seeds; ++i) {
    running_seed = options.first + i;
    const SimOutcome outcome = program.run(options.first + i, options);
    if (outcome.broken.empty()) continue;
    std::printf("found after %llu seeds: %s\n", static_cast<unsigned long long>(i + 1),
                outcome.broken.c_str());
    return 0;
  }
  std::printf("not found in %llu seeds\n", static_cast<unsigned long long>(options.seeds));
  return 1;
}

}  // namespace

int sim_main(int argc, char** argv, const SimProgram& program) {
  SimOptions options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s [--seeds N] [--first N] [--events N] [--seed N] [--trace] [--find N]\n",
                 program.name);
    return 2;
  }
  std::signal(SIGABRT, on_abort);
  finding = options.find;
  if (options.find) return find(program, options);
  Totals totals(program, options.events);
  for (uint64_t i = 0; i < options.seeds && totals.failed() < kFailedMost; ++i) {
    running_seed = options.first + i;
    totals.add(options.first + i, program.run(options.first + i, options));
  }
  if (options.one) return totals.failed() == 0 ? 0 : 1;
  const bool enough = totals.print();
  return totals.failed() == 0 && enough ? 0 : 1;
}

}  // namespace sf
