#include "storage_node/types/zset_algebra.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace sf {

namespace {

double weighted(double score, double weight) {
  double value = score * weight;
  return std::isnan(value) ? 0 : value;
}

double combine(double a, double b, Aggregate aggregate) {
  if (aggregate == Aggregate::kMin) return std::min(a, b);
  if (aggregate == Aggregate::kMax) return std::max(a, b);
  double sum = a + b;
  return std::isnan(sum) ? 0 : sum;
}

ScoredMembers members_of(Collection& entries) {
  if (entries.type() == KeyType::kZset) return Zset(entries).all();
  ScoredMembers out;
  for (Cursor at = entries.scan(); at.valid(); at.next()) {
    out.push_back({std::string(at.suffix()), 1});
  }
  return out;
}

std::optional<double> score_in(Collection& entries, std::string_view member) {
  if (entries.type() == KeyType::kZset) return Zset(entries).score(member);
  if (entries.has(member)) return 1;
  return std::nullopt;
}

void by_size(std::vector<ZsetSource>& sources) {
  std::stable_sort(sources.begin(), sources.end(), [](const ZsetSource& a, const ZsetSource& b) {
    return a.entries->size() < b.entries->size();
  });
}

void by_score(ScoredMembers& members) {
  std::sort(members.begin(), members.end(), [](const ScoredMember& a, const ScoredMember& b) {
    return a.score != b.score ? a.score < b.score : a.member < b.member;
  });
}

}  // namespace

ScoredMembers zset_union(std::vector<ZsetSource> sources, Aggregate aggregate) {
  by_size(sources);
  ScoredMembers out;
  std::unordered_map<std::string, size_t> index;
  for (const ZsetSource& source : sources) {
    for (ScoredMember& one : members_of(*source.entries)) {
      double score = weighted(one.score, source.weight);
      auto [it, added] = index.try_emplace(one.member, out.size());
      if (added) {
        out.push_back({std::move(one.member), score});
      } else {
        double& sum = out[it->second].score;
        sum = combine(sum, score, aggregate);
      }
    }
  }
  by_score(out);
  return out;
}

ScoredMembers zset_intersection(std::vector<ZsetSource> sources, Aggregate aggregate) {
  by_size(sources);
  ScoredMembers out;
  for (ScoredMember& one : members_of(*sources[0].entries)) {
    double score = weighted(one.score, sources[0].weight);
    bool everywhere = true;
    for (size_t i = 1; i < sources.size() && everywhere; ++i) {
      auto other = score_in(*sources[i].entries, one.member);
      everywhere = other.has_value();
      if (other) score = combine(score, weighted(*other, sources[i].weight), aggregate);
    }
    if (everywhere) out.push_back({std::move(one.member), score});
  }
  by_score(out);
  return out;
}

ScoredMembers zset_difference(const std::vector<ZsetSource>& sources) {
  ScoredMembers out;
  for (ScoredMember& one : members_of(*sources[0].entries)) {
    bool elsewhere = std::any_of(sources.begin() + 1, sources.end(), [&](const ZsetSource& source) {
      return score_in(*source.entries, one.member).has_value();
    });
    if (!elsewhere) out.push_back(std::move(one));
  }
  by_score(out);
  return out;
}

uint64_t zset_intersection_size(std::vector<ZsetSource> sources, uint64_t limit) {
  by_size(sources);
  uint64_t count = 0;
  for (Cursor at = sources[0].entries->scan(); at.valid(); at.next()) {
    bool everywhere =
        std::all_of(sources.begin() + 1, sources.end(),
                    [&](const ZsetSource& source) { return source.entries->has(at.suffix()); });
    if (everywhere && ++count == limit) break;
  }
  return count;
}

void zset_store(Collection& target, const ScoredMembers& members) {
  Zset zset(target);
  for (const ScoredMember& one : members) zset.set(one.member, one.score, std::nullopt);
}

}  // namespace sf
