// Sorted sets: kData member -> score (8 bytes, sortable), and kScore score (8) | member -> "". Both
// change together. Ranges see stored elements only; a command reads ranges before it writes.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage_node/types/collection.h"

namespace sf {

struct ScoredMember {
  std::string member;
  double score = 0;
};
using ScoredMembers = std::vector<ScoredMember>;

struct ScoreRange {
  double min = 0;
  double max = 0;
  bool min_open = false;  // the end itself is outside
  bool max_open = false;
};

// An end of a member range; members are compared as bytes.
struct LexBound {
  enum class Kind { kLowest, kHighest, kClosed, kOpen };
  Kind kind = Kind::kLowest;
  std::string_view member;
};
struct LexRange {
  LexBound min;
  LexBound max;
};

// What to give of a range, in the order walked.
struct Window {
  bool reverse = false;
  int64_t offset = 0;  // negative: nothing
  int64_t count = -1;  // negative: all
};

class Zset {
 public:
  explicit Zset(Collection& entries) : entries_(entries) {}

  uint64_t size() const { return entries_.size(); }
  KeyTxn& keys() { return entries_.keys(); }
  std::optional<double> score(std::string_view member);
  // `before`: what score(member) says.
  void set(std::string_view member, double score, std::optional<double> before);
  void remove(std::string_view member, double score);
  // Removes members that came, in this order, from one walk. If it began at an end of the set the
  // bounds of the scores move with it.
  void remove_walked(const ScoredMembers& members, bool from_low_end, bool from_high_end);
  bool low_end_in(const ScoreRange& range) const;  // a walk of the range begins at the low end

  // Number of elements before it in the order walked; nullopt: no such member.
  std::optional<uint64_t> rank(std::string_view member, bool reverse);
  // Ranks are Redis indexes, both ends included, counted in the order walked.
  ScoredMembers by_rank(int64_t start, int64_t stop, bool reverse);
  ScoredMembers by_score(const ScoreRange& range, const Window& window);
  ScoredMembers by_lex(const LexRange& range, const Window& window);
  uint64_t count_by_score(const ScoreRange& range);
  uint64_t count_by_lex(const LexRange& range);
  ScoredMembers all();  // by score, then member

 private:
  using Take = std::function<bool(std::string_view member, double score)>;  // false: enough
  void include(double score, std::string_view member);
  void walk_scores(const ScoreRange& range, bool reverse, const Take& take);
  void walk_members(const LexRange& range, bool reverse, const Take& take);

  Collection& entries_;
};

// Redis's grammars: "(1.5", "-inf"; "-", "+", "[a", "(a". nullopt: not one.
std::optional<ScoreRange> parse_score_range(std::string_view min, std::string_view max);
std::optional<LexRange> parse_lex_range(std::string_view min, std::string_view max);

// ZADD's rules.
struct ZaddFlags {
  bool nx = false;
  bool xx = false;
  bool gt = false;
  bool lt = false;
  bool incr = false;
};
struct ZaddResult {
  enum class What {
    kNothing,
    kAdded,
    kUpdated,
    kSame
  } what = What::kNothing;  // kNothing: refused by a flag
  double score = 0;
};
// Fails the command if an increment gives no number.
ZaddResult zset_add(Zset& zset, std::string_view member, double score, const ZaddFlags& flags);

}  // namespace sf
