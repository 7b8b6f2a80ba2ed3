// The program around a simulated world: runs seeds, tells which kinds of fault they had, ends well
// or not. A World has
//   World(uint64_t seed, const SimOptions&), run() that throws when a promise is broken, events(),
//   had() and, if it knows, mattered(): by fault, as bool.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sf {

struct SimOptions {
  uint64_t seeds = 20'000;
  uint64_t first = 1;
  int events = 800;    // of a busy part that is counted in events
  bool trace = false;  // tells what happens
  bool one = false;    // --seed
  bool find = false;   // of a mutant: ends well when a seed has found it
};

struct SimOutcome {
  std::string broken;  // "" if nothing
  uint64_t events = 0;
  std::vector<bool> had, mattered;  // by fault; `mattered` may be empty
};

struct SimProgram {
  const char* name;
  std::vector<std::string> faults;
  std::function<SimOutcome(uint64_t seed, const SimOptions& options)> run;
};

int sim_main(int argc, char** argv, const SimProgram& program);

template <class World>
SimOutcome run_world(uint64_t seed, const SimOptions& options) {
  World world(seed, options);
  SimOutcome out;
  try {
    world.run();
  } catch (const std::exception& broken) {
    out.broken = broken.what();
  }
  out.events = world.events();
  out.had.assign(world.had().begin(), world.had().end());
  if constexpr (requires { world.mattered(); }) {
    out.mattered.assign(world.mattered().begin(), world.mattered().end());
  }
  return out;
}

}  // namespace sf
