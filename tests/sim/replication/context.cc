#include "tests/sim/replication/context.h"

namespace sf::sim {

const char* fault_name(Fault fault) {
  static constexpr std::array<const char*, kFaults> kNames = {
      "connection drop",
      "delay",
      "reorder",
      "master killed",
      "master lost tail",
      "replica killed",
      "replica lost tail",
      "disk error",
      "no room",
      "silence",
      "log purged",
      "role change",
      "forked history",
      "message lost",
      "slots moved",
      "move taken back",
      "reverse attachment",
      "slots added",
      "slots dropped",
  };
  return kNames[static_cast<size_t>(fault)];
}

Conn* Context::conn(int id) {
  for (const auto& conn : conns) {
    if (conn->id == id) return conn.get();
  }
  return nullptr;
}

int Context::dial(int replica, int master) {
  auto conn = std::make_unique<Conn>();
  conn->id = next_conn++;
  conn->replica = replica;
  conn->master = master;
  conns.push_back(std::move(conn));
  return conns.back()->id;
}

void Context::print(const std::string& line) const {
  std::printf("%10.3f ms  %s\n", static_cast<double>(now) / 1000.0, line.c_str());
}

}  // namespace sf::sim
