// Is what the clients saw of one register linearizable? Every write has a value of its own, so the
// answer is exact and cheap (zones, Gibbons and Korach 1997): the operations of one value span a
// zone from the first answer to the last call. Zones that go forward must not overlap, and one that
// goes backward must not lie in a forward one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sf::cutsim {

class RegisterCheck {
 public:
  // The register holds 0 from the start. Stamps are of one counter, all different.
  void write_done(int64_t value, uint64_t called, uint64_t answered);
  void write_unknown(int64_t value, uint64_t called);  // may happen at any time after, or never
  void write_refused(int64_t value);                   // certainly did not happen
  void read_done(int64_t value, uint64_t called, uint64_t answered);
  // What is wrong, if anything.
  std::optional<std::string> broken() const;

 private:
  struct Cluster {
    bool written = false;
    bool known = false;  // answered, or read
    uint64_t write_called = 0;
    uint64_t first_answer = UINT64_MAX;
    uint64_t last_call = 0;
    uint64_t first_read_answer = UINT64_MAX;
  };
  std::map<int64_t, Cluster> clusters_;
};

}  // namespace sf::cutsim
