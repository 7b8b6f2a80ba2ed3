// A server that holds keys a test planted: enough of Redis's reading commands for the verifier.
// Values may be changed while it runs.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "migrator/peer.h"
#include "tests/support/fake_server.h"

namespace sf {

struct FakeValue {
  std::string type = "string";
  std::string text;               // string
  std::vector<std::string> list;  // list
  std::map<std::string, std::string>
      pairs;  // hash: field and value; zset: member and score; set: member, ""
  int64_t expire_ms = -1;
};

class FakeData {
 public:
  FakeData();

  void put(const std::string& key, FakeValue value);
  void put(const std::string& key, const std::string& text) {
    FakeValue value;
    value.text = text;
    put(key, std::move(value));
  }
  void erase(const std::string& key);
  // Called before each request, outside the lock: a test's chance to change something.
  void set_hook(std::function<void(const Words&)> hook) { hook_ = std::move(hook); }
  HostPort address() const { return {"127.0.0.1", server_.port()}; }
  std::unique_ptr<Peer> peer(const std::string& name) const;
  int64_t largest_reply() const;  // elements, of every reply so far

 private:
  std::string answer(const Words& words);
  std::string scan_keys(const Words& words, size_t cursor_at, int slot);
  std::string scan_value(const FakeValue& value, const Words& words);
  std::string read_value(const std::string& command, const FakeValue& value, const Words& words);

  mutable std::mutex mutex_;
  std::map<std::string, FakeValue> values_;
  int64_t largest_reply_ = 0;
  std::function<void(const Words&)> hook_;
  FakeServer server_;
};

}  // namespace sf
