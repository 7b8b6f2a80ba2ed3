#include <string>
#include <vector>

#include "common/ops/process.h"
#include "migrator/commands.h"

int main(int argc, char** argv) {
  sf::StopFlag stop;
  const sf::StopSignals signals([&stop] { stop.raise(); });
  return sf::run_command(std::vector<std::string>(argv + 1, argv + argc), stop);
}
