#include "proxy_shim/data/fanout.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "common/resp/reply_parser.h"

namespace sf {

namespace {

// The number of a line ":12\r\n" or "*12\r\n"; nothing for another type.
std::optional<int64_t> line_number(std::string_view reply, char type) {
  const size_t end = reply.find("\r\n");
  if (reply.empty() || reply[0] != type || end == std::string_view::npos) return {};
  return parse_int64(reply.substr(1, end - 1));
}

}  // namespace

Fanout::Fanout(Pending* whole, const CommandSpec& spec, std::span<const std::string_view> argv,
               std::span<const int> positions, std::span<const Side> sides)
    : whole_(whole), rule_(spec.split), owner_of_key_(sides.begin(), sides.end()) {
  SF_CHECK(rule_ != SplitRule::kNone && positions.size() == sides.size());
  const size_t step = rule_ == SplitRule::kMset ? 2 : 1;
  std::array<size_t, kParts> keys{};
  for (const Side side : sides) ++keys[static_cast<size_t>(side)];
  for (size_t part = 0; part < kParts; ++part) {
    resp::array(requests_[part], 1 + keys[part] * step);
    resp::bulk(requests_[part], argv[0]);
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    std::string& request = requests_[static_cast<size_t>(sides[i])];
    for (size_t k = 0; k < step; ++k) {
      resp::bulk(request, argv[static_cast<size_t>(positions[i]) + k]);
    }
  }
}

bool Fanout::add_reply(size_t part, std::string_view reply) {
  replies_[part].assign(reply);
  return --left_ == 0;
}

void Fanout::joined(std::string& out) const {
  for (const std::string& reply : replies_) {
    if (reply.starts_with('-')) {
      out.append(reply);
      return;
    }
  }
  switch (rule_) {
    case SplitRule::kMget:
      join_elements(out);
      return;
    case SplitRule::kSum:
      join_sum(out);
      return;
    default:
      out.append(replies_[0]);
      return;
  }
}

void Fanout::join_elements(std::string& out) const {
  std::array<std::string_view, kParts> rest;
  std::array<int64_t, kParts> wanted{};
  for (const Side side : owner_of_key_) ++wanted[static_cast<size_t>(side)];
  for (size_t part = 0; part < kParts; ++part) {
    if (line_number(replies_[part], '*') != wanted[part]) {
      resp::error(out, "ERR a server behind the shim answered with another number of elements");
      return;
    }
    rest[part] = std::string_view(replies_[part]).substr(replies_[part].find("\r\n") + 2);
  }
  resp::array(out, owner_of_key_.size());
  std::array<ReplyParser, kParts> parsers;
  for (const Side side : owner_of_key_) {
    const auto part = static_cast<size_t>(side);
    SF_CHECK(parsers[part].parse(rest[part]) == ReplyParser::Outcome::kReply);
    out.append(rest[part].substr(0, parsers[part].size()));
    rest[part].remove_prefix(parsers[part].size());
  }
}

void Fanout::join_sum(std::string& out) const {
  int64_t sum = 0;
  for (const std::string& reply : replies_) {
    const auto number = line_number(reply, ':');
    if (!number || __builtin_add_overflow(sum, *number, &sum)) {
      resp::error(out, "ERR a server behind the shim did not answer with a number of keys");
      return;
    }
  }
  resp::integer(out, sum);
}

}  // namespace sf
