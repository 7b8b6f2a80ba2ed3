// Seeded simulation of the cutover (tests/sim/README.md).
#include "tests/sim/cutover/world.h"
#include "tests/sim/sim_main.h"

int main(int argc, char** argv) {
  sf::SimProgram program{"sim_cutover", {}, sf::run_world<sf::cutsim::World>};
  for (size_t i = 0; i < sf::cutsim::kFaults; ++i) {
    program.faults.push_back(fault_name(static_cast<sf::cutsim::Fault>(i)));
  }
  return sf::sim_main(argc, argv, program);
}
