// A command whose keys have two owners, sent as one command to each and answered as one
// (DESIGN 6.5). Pure: knows bytes, not connections.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/resp/command_catalog.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class Fanout {
 public:
  static constexpr size_t kParts = 2;  // index = Side

  // `positions`: argv indexes of the keys; `sides`: the owner of each. Both owners occur.
  Fanout(Pending* whole, const CommandSpec& spec, std::span<const std::string_view> argv,
         std::span<const int> positions, std::span<const Side> sides);

  Pending* whole() const { return whole_; }
  std::string take_request(size_t part) { return std::move(requests_[part]); }

  // The reply of one part (exactly one RESP value). True when it was the last: joined() is ready.
  bool add_reply(size_t part, std::string_view reply);
  // The reply of the whole command, appended: an error of any part is the error of all of it.
  void joined(std::string& out) const;

 private:
  void join_elements(std::string& out) const;
  void join_sum(std::string& out) const;

  Pending* whole_;
  const SplitRule rule_;
  std::vector<Side> owner_of_key_;
  std::array<std::string, kParts> requests_;
  std::array<std::string, kParts> replies_;
  size_t left_ = kParts;
};

}  // namespace sf
