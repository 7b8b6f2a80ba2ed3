// A data plane between blocking test clients and two fake servers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/slots/slot_set.h"
#include "proxy_shim/data/data_plane.h"
#include "tests/support/fake_server.h"
#include "tests/support/test_client.h"

namespace sf {

// A key whose slot is `slot`; different for each `n`.
std::string key_in(int slot, int n = 0);

class ShimFixture {
 public:
  explicit ShimFixture(DataPlaneOptions options = test_options());
  // `prepare` is called before the start.
  explicit ShimFixture(const std::function<void(DataPlane&)>& prepare,
                       DataPlaneOptions options = test_options());
  static DataPlaneOptions test_options();

  // The routes being made; publish() sends them. All slots are OLD at first.
  RouteTable table;
  void set(const SlotSet& slots, SlotPhase phase);
  void publish();
  void publish(const SlotSet& slots, SlotPhase phase);

  TestClient client() const { return TestClient(plane->port()); }
  // What `command` answers, as text.
  std::string ask(std::initializer_list<std::string_view> argv) const;

  FakeServer old_server;
  FakeServer new_server;
  std::unique_ptr<DataPlane> plane;
};

// True as soon as `check` is; false after 5 s.
bool eventually(const std::function<bool()>& check);

}  // namespace sf
