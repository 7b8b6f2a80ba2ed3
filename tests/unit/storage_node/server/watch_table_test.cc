#include "storage_node/server/watch_table.h"

#include <doctest/doctest.h>

#include <vector>

using namespace sf;

TEST_CASE("watch: only writes of the watched key in its db count") {
  WatchTable table;
  const WatchTable::Watch watch = table.watch(0, "k");
  table.touch(0, "other");
  table.touch(1, "k");
  CHECK_FALSE(watch.touched());
  table.touch(0, "k");
  CHECK(watch.touched());
  CHECK_FALSE(table.watch(0, "k").touched());
}

TEST_CASE("watch: flushing counts for keys that were there, and moved watches stay valid") {
  WatchTable table;
  std::vector<WatchTable::Watch> watches;
  watches.push_back(table.watch(0, "there"));
  watches.back().existed = true;
  watches.push_back(table.watch(0, "missing"));
  table.touch_all();
  CHECK(watches[0].touched());
  CHECK_FALSE(watches[1].touched());
  watches.clear();
  table.touch(0, "there");  // nobody watches: nothing is kept
  CHECK_FALSE(table.watch(0, "there").touched());
}
