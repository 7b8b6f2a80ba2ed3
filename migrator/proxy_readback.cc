#include "migrator/proxy_readback.h"

namespace sf {

std::map<int, std::string> expect_slots(const SlotSet& slots, const std::string& address) {
  std::map<int, std::string> expected;
  slots.for_each([&](int slot) { expected[slot] = address; });
  return expected;
}

Result<ReadBack> read_back_proxies(CodisDashboard& dashboard, const CodisTopology& topology,
                                   const std::map<int, std::string>& expected) {
  if (topology.proxies.empty()) {
    return Status::refused(
        cat("the dashboard ", dashboard.address().text(),
            " has no proxy registered, so nobody can be read back; online the proxies"));
  }
  ReadBack result;
  for (const CodisProxy& proxy : topology.proxies) {
    const auto slots = dashboard.proxy_slots(proxy);
    if (!slots) {
      return Status(slots.status().code(),
                    slots.status().text() + " (or remove it from the dashboard if it is dead)");
    }
    ++result.proxies;
    for (const auto& [slot, address] : expected) {
      const ProxySlot& actual = (*slots)[static_cast<size_t>(slot)];
      if (actual.backend == address && actual.migrate_from.empty() && !actual.locked) continue;
      result.wrong.add(slot);
      if (!result.text.empty()) continue;
      result.text = cat("proxy ", proxy.admin_addr, " maps slot ", slot, " to ",
                        actual.backend.empty() ? "nothing" : actual.backend,
                        actual.migrate_from.empty() ? "" : ", migrating from ", actual.migrate_from,
                        actual.locked ? ", locked" : "", " instead of ", address);
    }
  }
  return result;
}

}  // namespace sf
