#include "tests/sim/cutover/list_check.h"

#include <algorithm>
#include <set>

#include "common/base/strings.h"

namespace sf::cutsim {
namespace {

constexpr size_t kOrdersMost = 200'000;

std::string text(const std::vector<int64_t>& elements) {
  std::string out = "(";
  for (int64_t element : elements) out += cat(out.size() > 1 ? " " : "", element);
  return out + ")";
}

}  // namespace

void ListCheck::push_unknown(int64_t element, uint64_t called) {
  pushes_[element] = {Type::kPush, element, called, UINT64_MAX, {}};
}

void ListCheck::push_done(int64_t element, uint64_t called, uint64_t answered) {
  pushes_[element] = {Type::kPush, element, called, answered, {}};
}

void ListCheck::push_refused(int64_t element) {
  pushes_.erase(element);
}

void ListCheck::pop_done(int64_t element, uint64_t called, uint64_t answered) {
  others_.push_back({Type::kPop, element, called, answered, {}});
}

void ListCheck::pop_unknown(uint64_t called) {
  others_.push_back({Type::kPop, -1, called, UINT64_MAX, {}});
}

void ListCheck::range_done(std::vector<int64_t> elements, uint64_t called, uint64_t answered) {
  others_.push_back({Type::kRange, 0, called, answered, std::move(elements)});
}

class ListCheck::Search {
 public:
  Search(const std::map<int64_t, Operation>& pushes, const std::vector<Operation>& others)
      : pushes_(pushes), others_(others) {}
  std::optional<std::string> run();

 private:
  // An order of what has happened: the list it leads to, and which of the operations that are
  // called and not answered are in it.
  struct State {
    std::vector<int64_t> list;
    std::set<size_t> done;
    bool operator<(const State& other) const {
      return list != other.list ? list < other.list : done < other.done;
    }
  };

  std::optional<std::string> see(int64_t element, const Operation& by);
  std::optional<std::string> look_at_all();
  bool take(const Operation& operation, State* state) const;
  void extend(const State& state, size_t last);
  std::string name(const Operation& operation) const;

  const std::map<int64_t, Operation>& pushes_;
  const std::vector<Operation>& others_;
  std::vector<const Operation*> operations_;
  std::map<int64_t, uint64_t> last_seen_;  // call of the last one that saw the element
  std::map<int64_t, int64_t> popped_;      // by an answered pop
  std::map<int64_t, int64_t> after_;       // the element it was seen right behind
  std::map<int64_t, size_t> push_of_;      // operation, by element
  std::set<size_t> open_;                  // called, not answered
  std::set<size_t> answered_;
  std::set<State> states_, next_, seen_;
};

std::optional<std::string> ListCheck::Search::see(int64_t element, const Operation& by) {
  const auto push = pushes_.find(element);
  if (push == pushes_.end()) return cat("element ", element, " was seen and never pushed");
  if (by.answered < push->second.called) return cat("element ", element, " seen before its push");
  uint64_t& last = last_seen_[element];
  last = std::max(last, by.called);
  return std::nullopt;
}

std::optional<std::string> ListCheck::Search::look_at_all() {
  for (const Operation& by : others_) {
    for (size_t i = 0; i < by.elements.size(); ++i) {
      if (auto why = see(by.elements[i], by)) return why;
      if (i > 0) after_[by.elements[i]] = by.elements[i - 1];
      if (std::count(by.elements.begin(), by.elements.end(), by.elements[i]) > 1) {
        return cat("element ", by.elements[i], " is in the list twice: ", text(by.elements));
      }
    }
    if (by.type != Type::kPop || by.element <= 0) continue;
    if (auto why = see(by.element, by)) return why;
    if (!popped_.emplace(by.element, 1).second) {
      return cat("element ", by.element, " was popped twice");
    }
  }
  return std::nullopt;
}

std::string ListCheck::Search::name(const Operation& operation) const {
  if (operation.type == Type::kPush) return cat("push of ", operation.element);
  if (operation.type == Type::kRange) return cat("read of ", text(operation.elements));
  return operation.element == 0 ? "pop of nothing" : cat("pop of ", operation.element);
}

// False if it cannot have happened there.
bool ListCheck::Search::take(const Operation& operation, State* state) const {
  std::vector<int64_t>& list = state->list;
  switch (operation.type) {
    case Type::kPush: {
      const auto before = after_.find(operation.element);
      if (before != after_.end()) {  // that one was pushed earlier
        const size_t earlier = push_of_.at(before->second);
        if (!answered_.contains(earlier) && !state->done.contains(earlier)) return false;
      }
      list.push_back(operation.element);
      return true;
    }
    case Type::kPop:
      if (operation.element == 0) return list.empty();
      if (list.empty()) return false;
      if (operation.element > 0 && list.front() != operation.element) return false;
      list.erase(list.begin());
      return true;
    default:
      return list == operation.elements;
  }
}

// All orders that put open operations behind `state`, the last of them `last`.
void ListCheck::Search::extend(const State& state, size_t last) {
  if (!seen_.insert(state).second) return;
  State with = state;
  if (take(*operations_[last], &with)) next_.insert(std::move(with));
  for (size_t other : open_) {
    if (other == last || state.done.contains(other)) continue;
    const Operation& operation = *operations_[other];
    if (operation.element < 0) {  // nobody saw what it took
      if (state.list.empty()) continue;
      const int64_t head = state.list.front();
      const auto seen = last_seen_.find(head);
      const bool needed = popped_.contains(head) ||
                          (seen != last_seen_.end() && seen->second > operations_[last]->answered);
      if (needed) continue;
    }
    State longer = state;
    if (!take(operation, &longer)) continue;
    longer.done.insert(other);
    extend(longer, last);
  }
}

std::optional<std::string> ListCheck::Search::run() {
  if (auto why = look_at_all()) return why;
  for (const auto& [element, push] : pushes_) {
    // One that nobody heard of again may as well not have happened, nor a pop that took it.
    if (push.answered != UINT64_MAX || last_seen_.contains(element)) operations_.push_back(&push);
  }
  for (const Operation& other : others_) operations_.push_back(&other);
  std::vector<std::pair<uint64_t, size_t>> moments;  // calls and answers in their order
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = *operations_[i];
    if (operation.type == Type::kPush) push_of_[operation.element] = i;
    moments.emplace_back(operation.called, i);
    if (operation.answered != UINT64_MAX) moments.emplace_back(operation.answered, i);
  }
  std::sort(moments.begin(), moments.end());
  states_.insert(State{});
  for (const auto& [stamp, i] : moments) {
    const Operation& operation = *operations_[i];
    if (stamp == operation.called) {
      open_.insert(i);
      continue;
    }
    next_.clear();
    seen_.clear();
    for (const State& state : states_) {
      if (!state.done.contains(i)) {
        extend(state, i);
        continue;
      }
      State without = state;
      without.done.erase(i);
      next_.insert(std::move(without));
    }
    if (next_.empty()) {
      return cat("the ", name(operation), " fits no order; the list was ",
                 text(states_.begin()->list));
    }
    if (next_.size() > kOrdersMost) return "too many orders to look at";
    open_.erase(i);
    answered_.insert(i);
    states_.swap(next_);
  }
  return std::nullopt;
}

std::optional<std::string> ListCheck::broken() const {
  return Search(pushes_, others_).run();
}

}  // namespace sf::cutsim
