#include "storage_node/types/zset.h"

#include <algorithm>
#include <cmath>

#include "common/base/coding.h"
#include "storage_node/types/list.h"
#include "storage_node/types/number.h"

namespace sf {

namespace {

constexpr size_t kScoreBytes = 8;

std::string score_bytes(double score) {
  std::string out;
  put_big64(out, sortable_score(score));
  return out;
}

std::string score_entry(double score, std::string_view member) {
  std::string out = score_bytes(score);
  out.append(member);
  return out;
}

std::string sortable_bytes(uint64_t sortable) {
  std::string out;
  put_big64(out, sortable);
  return out;
}

// The first member after this one.
std::string after_member(std::string_view member) {
  std::string out(member);
  out.push_back('\0');
  return out;
}

bool parse_score_bound(std::string_view text, double* value, bool* open) {
  *open = !text.empty() && text[0] == '(';
  if (*open) text.remove_prefix(1);
  auto parsed = parse_score_end(text);
  if (parsed) *value = *parsed;
  return parsed.has_value();
}

bool parse_lex_bound(std::string_view text, LexBound* bound) {
  if (text == "-" || text == "+") {
    bound->kind = text == "-" ? LexBound::Kind::kLowest : LexBound::Kind::kHighest;
    return true;
  }
  if (text.empty() || (text[0] != '[' && text[0] != '(')) return false;
  bound->kind = text[0] == '[' ? LexBound::Kind::kClosed : LexBound::Kind::kOpen;
  bound->member = text.substr(1);
  return true;
}

}  // namespace

std::optional<ScoreRange> parse_score_range(std::string_view min, std::string_view max) {
  ScoreRange range;
  if (!parse_score_bound(min, &range.min, &range.min_open)) return std::nullopt;
  if (!parse_score_bound(max, &range.max, &range.max_open)) return std::nullopt;
  return range;
}

std::optional<LexRange> parse_lex_range(std::string_view min, std::string_view max) {
  LexRange range;
  if (!parse_lex_bound(min, &range.min) || !parse_lex_bound(max, &range.max)) return std::nullopt;
  return range;
}

std::optional<double> Zset::score(std::string_view member) {
  auto stored = entries_.get(member);
  if (!stored) return std::nullopt;
  if (stored->size() != kScoreBytes) {
    entries_.keys().fail(Status::corrupt("a stored score is damaged"));
    return std::nullopt;
  }
  return score_of(big64(stored->data()));
}

void Zset::set(std::string_view member, double score, std::optional<double> before) {
  if (before) entries_.erase_score(score_entry(*before, member));
  entries_.put(member, score_bytes(score));
  entries_.put_score(score_entry(score, member));
  include(score, member);
  if (!before) entries_.grow(1);
}

void Zset::include(double score, std::string_view member) {
  uint64_t sortable = sortable_score(score);
  uint64_t low = entries_.head();
  uint64_t high = entries_.tail();
  if (!entries_.exists() && low == 0) return entries_.set_bounds(sortable, {}, sortable);
  if (sortable > high) entries_.set_bounds(low, std::string(entries_.low_member()), sortable);
  if (sortable < low) {
    entries_.set_bounds(sortable, {}, entries_.tail());
  } else if (sortable == low && member < entries_.low_member()) {
    entries_.set_bounds(low, member, entries_.tail());
  }
}

void Zset::remove(std::string_view member, double score) {
  entries_.erase(member);
  entries_.erase_score(score_entry(score, member));
  entries_.grow(-1);
}

void Zset::remove_walked(const ScoredMembers& members, bool from_low_end, bool from_high_end) {
  if (members.empty()) return;
  if (members.size() == size()) return entries_.clear();
  for (const ScoredMember& one : members) remove(one.member, one.score);
  uint64_t last = sortable_score(members.back().score);
  if (from_low_end) entries_.set_bounds(last, members.back().member, entries_.tail());
  if (from_high_end) {
    entries_.set_bounds(entries_.head(), std::string(entries_.low_member()), last);
  }
}

bool Zset::low_end_in(const ScoreRange& range) const {
  return sortable_score(range.min) + (range.min_open ? 1 : 0) <= entries_.head();
}

void Zset::walk_scores(const ScoreRange& range, bool reverse, const Take& take) {
  if (range.min > range.max || !entries_.exists()) return;
  // No score is NaN, so sortable_score(score) + 1 does not overflow.
  uint64_t begin = sortable_score(range.min) + (range.min_open ? 1 : 0);
  uint64_t end = sortable_score(range.max) + (range.max_open ? 0 : 1);
  begin = std::max(begin, entries_.head());
  end = std::min(end, entries_.tail() + 1);
  if (begin >= end) return;
  std::string first = sortable_bytes(begin);
  if (begin == entries_.head()) first.append(entries_.low_member());
  Cursor at = entries_.scan(Cf::kScore, first, sortable_bytes(end),
                            reverse ? KeyTxn::From::kLast : KeyTxn::From::kFirst);
  while (at.valid()) {
    std::string_view suffix = at.suffix();
    if (!take(suffix.substr(kScoreBytes), score_of(big64(suffix.data())))) return;
    reverse ? at.prev() : at.next();
  }
}

void Zset::walk_members(const LexRange& range, bool reverse, const Take& take) {
  using Kind = LexBound::Kind;
  if (range.min.kind == Kind::kHighest || range.max.kind == Kind::kLowest) return;
  std::string begin;
  if (range.min.kind == Kind::kClosed) begin = range.min.member;
  if (range.min.kind == Kind::kOpen) begin = after_member(range.min.member);
  std::optional<std::string> end;
  if (range.max.kind == Kind::kClosed) end = after_member(range.max.member);
  if (range.max.kind == Kind::kOpen) end = range.max.member;
  if (end && begin >= *end) return;
  std::optional<std::string_view> bound;
  if (end) bound = *end;
  Cursor at =
      entries_.scan(Cf::kData, begin, bound, reverse ? KeyTxn::From::kLast : KeyTxn::From::kFirst);
  while (at.valid()) {
    if (!take(at.suffix(), score_of(big64(at.value().data())))) return;
    reverse ? at.prev() : at.next();
  }
}

namespace {

// Skips the window's offset and stops after its count; collects what is between.
std::function<bool(std::string_view, double)> collect(ScoredMembers& out, const Window& window) {
  int64_t skip = window.offset;
  return [&out, skip, count = window.count](std::string_view member, double score) mutable {
    if (skip > 0) {
      --skip;
      return true;
    }
    if (count >= 0 && static_cast<int64_t>(out.size()) >= count) return false;
    out.push_back({std::string(member), score});
    return true;
  };
}

const ScoreRange kAllScores{-std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::infinity(), false, false};

}  // namespace

std::optional<uint64_t> Zset::rank(std::string_view member, bool reverse) {
  auto own = score(member);
  if (!own) return std::nullopt;
  uint64_t before = 0;
  walk_scores(kAllScores, reverse, [&](std::string_view other, double) {
    if (other == member) return false;
    ++before;
    return true;
  });
  return before;
}

ScoredMembers Zset::by_rank(int64_t start, int64_t stop, bool reverse) {
  ScoredMembers out;
  auto range = clip_range(size(), start, stop);
  if (!range) return out;
  uint64_t count = range->last - range->first + 1;
  uint64_t behind = size() - 1 - range->last;
  bool from_other_end = behind < range->first;
  Window window{.offset = static_cast<int64_t>(from_other_end ? behind : range->first),
                .count = static_cast<int64_t>(count)};
  walk_scores(kAllScores, reverse != from_other_end, collect(out, window));
  if (from_other_end) std::reverse(out.begin(), out.end());
  return out;
}

ScoredMembers Zset::by_score(const ScoreRange& range, const Window& window) {
  ScoredMembers out;
  if (window.offset >= 0) walk_scores(range, window.reverse, collect(out, window));
  return out;
}

ScoredMembers Zset::by_lex(const LexRange& range, const Window& window) {
  ScoredMembers out;
  if (window.offset >= 0) walk_members(range, window.reverse, collect(out, window));
  return out;
}

uint64_t Zset::count_by_score(const ScoreRange& range) {
  uint64_t count = 0;
  walk_scores(range, false, [&](std::string_view, double) { return ++count != 0; });
  return count;
}

uint64_t Zset::count_by_lex(const LexRange& range) {
  uint64_t count = 0;
  walk_members(range, false, [&](std::string_view, double) { return ++count != 0; });
  return count;
}

ScoredMembers Zset::all() {
  return by_score(kAllScores, {});
}

ZaddResult zset_add(Zset& zset, std::string_view member, double score, const ZaddFlags& flags) {
  using What = ZaddResult::What;
  auto before = zset.score(member);
  if (!before) {
    if (flags.xx) return {};
    zset.set(member, score, before);
    return {What::kAdded, score};
  }
  if (flags.nx) return {};
  if (flags.incr) score += *before;
  if (std::isnan(score)) {
    zset.keys().fail("ERR resulting score is not a number (NaN)");
    return {};
  }
  if ((flags.lt && score >= *before) || (flags.gt && score <= *before)) return {};
  if (score == *before) return {What::kSame, score};
  zset.set(member, score, before);
  return {What::kUpdated, score};
}

}  // namespace sf
