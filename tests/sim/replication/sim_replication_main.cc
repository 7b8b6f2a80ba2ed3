// Seeded simulation of replication (tests/sim/README.md).
#include "tests/sim/replication/world.h"
#include "tests/sim/sim_main.h"

int main(int argc, char** argv) {
  sf::SimProgram program{"sim_replication", {}, sf::run_world<sf::sim::World>};
  for (size_t i = 0; i < sf::sim::kFaults; ++i) {
    program.faults.push_back(fault_name(static_cast<sf::sim::Fault>(i)));
  }
  return sf::sim_main(argc, argv, program);
}
