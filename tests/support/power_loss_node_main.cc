// power-loss-node: slotferry-node on a file system on which kill -9 loses what was not synced.
#include <array>
#include <memory>

#include "storage_node/node_main.h"
#include "tests/support/power_loss_fs.h"

int main(int argc, char** argv) {
  return sf::node_main(argc, argv, [](sf::EngineOptions& options) {
    // In most lives the kernel writes little back on its own: a second is lost, not milliseconds.
    constexpr std::array<int, 4> kWritebackPerMille = {0, 0, 1, 10};
    sf::Random random(sf::Random::system_seed());
    const int writeback = kWritebackPerMille[random.below(kWritebackPerMille.size())];
    options.file_system = std::make_shared<sf::PowerLossFs>(random.next(), writeback);
  });
}
