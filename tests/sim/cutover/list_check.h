// Is what the clients saw of one list linearizable? Appends at the tail, pops at the head, reads of
// the whole; every element is different. Exact: all orders that fit what was answered so far are
// kept while time goes on (just-in-time linearization, Lowe 2017), each as the list it leads to.
// What was never answered happened at any time after its call, or never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sf::cutsim {

class ListCheck {
 public:
  // The list is empty from the start. Stamps are of one counter, all different; elements are above
  // 0, and each is pushed once. Of one push the last word holds.
  void push_unknown(int64_t element, uint64_t called);
  void push_done(int64_t element, uint64_t called, uint64_t answered);
  void push_refused(int64_t element);                                  // certainly did not happen
  void pop_done(int64_t element, uint64_t called, uint64_t answered);  // 0: there was none
  void pop_unknown(uint64_t called);
  void range_done(std::vector<int64_t> elements, uint64_t called, uint64_t answered);
  // What is wrong, if anything.
  std::optional<std::string> broken() const;

 private:
  enum class Type { kPush, kPop, kRange };
  struct Operation {
    Type type;
    int64_t element = 0;  // below 0: of a pop, unknown
    uint64_t called = 0;
    uint64_t answered = UINT64_MAX;
    std::vector<int64_t> elements;
  };
  class Search;

  std::map<int64_t, Operation> pushes_;
  std::vector<Operation> others_;
};

}  // namespace sf::cutsim
