// slotferry-node: the program.
#include "storage_node/node_main.h"

// jemalloc's own configuration variable; MALLOC_CONF in the environment overrides it. Memtables are
// walked at random, and in 4 KiB pages a good part of a lookup is spent on address translation:
// huge pages take 12-30 % off the CPU time of SET and 23-31 % off GET at pipeline 32
// (docs/PERFORMANCE.md).
extern "C" {
const char* malloc_conf = "thp:always,metadata_thp:auto";
}

int main(int argc, char** argv) {
  return sf::node_main(argc, argv);
}
