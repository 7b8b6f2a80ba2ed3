#include "tests/support/check/oracle.h"

#include <doctest/doctest.h>

using namespace sf::check;

TEST_CASE("oracle: a register accepts what one client may see") {
  RegisterOracle oracle;
  Verdict verdict;
  oracle.read(false, "", false, "k", &verdict);
  const std::string a = oracle.next_value("c");
  oracle.acknowledged(a);
  oracle.read(true, a, false, "k", &verdict);
  const std::string b = oracle.next_value("c");
  oracle.unknown(b);
  oracle.read(true, a, false, "k", &verdict);  // not executed yet
  oracle.read(true, b, false, "k", &verdict);  // executed late
  oracle.read(true, b, true, "k", &verdict);
  CHECK(verdict.lost + verdict.stale + verdict.doubled == 0);
}

TEST_CASE("oracle: a register finds a stale read, a lost write and a value from nowhere") {
  RegisterOracle oracle;
  Verdict verdict;
  const std::string a = oracle.next_value("c");
  const std::string b = oracle.next_value("c");
  oracle.acknowledged(a);
  oracle.acknowledged(b);
  oracle.read(true, a, false, "k", &verdict);
  CHECK(verdict.stale == 1);
  oracle.read(false, "", true, "k", &verdict);
  CHECK(verdict.lost == 1);
  oracle.read(true, "x", false, "k", &verdict);
  CHECK(verdict.stale == 2);
  CHECK(verdict.samples.size() == 3);
}

TEST_CASE("oracle: an unanswered write seen once may not vanish") {
  RegisterOracle oracle;
  Verdict verdict;
  const std::string a = oracle.next_value("c");
  const std::string b = oracle.next_value("c");
  oracle.acknowledged(a);
  oracle.unknown(b);
  oracle.read(true, b, false, "k", &verdict);
  oracle.read(true, a, false, "k", &verdict);
  CHECK(verdict.stale == 1);
}

TEST_CASE("oracle: a counter finds lost and doubled increments") {
  CounterOracle oracle;
  Verdict verdict;
  oracle.acknowledged(1, "n", &verdict);
  oracle.unknown();
  oracle.acknowledged(3, "n", &verdict);  // the unanswered one happened
  oracle.read(true, 3, true, "n", &verdict);
  CHECK(verdict.lost + verdict.doubled + verdict.stale == 0);
  oracle.acknowledged(5, "n", &verdict);
  CHECK(verdict.doubled == 1);
  oracle.read(true, 4, true, "n", &verdict);
  CHECK(verdict.lost == 1);
}

TEST_CASE("oracle: a list finds a missing, a doubled and a reordered element") {
  Verdict verdict;
  const auto filled = [&] {
    ListOracle oracle;
    for (int i = 1; i <= 3; ++i) oracle.acknowledged(oracle.next_element(), i, "l", &verdict);
    return oracle;
  };
  ListOracle good = filled();
  good.unknown(good.next_element());
  good.read_all({"1", "2", "4", "3"}, "l", &verdict);  // the unanswered one may come late
  CHECK(verdict.lost + verdict.doubled == 0);
  filled().read_all({"1", "3"}, "l", &verdict);
  CHECK(verdict.lost == 1);
  filled().read_all({"1", "2", "2", "3"}, "l", &verdict);
  CHECK(verdict.doubled == 1);
  filled().read_all({"1", "3", "2"}, "l", &verdict);
  CHECK(verdict.lost == 2);
  ListOracle grown = filled();
  grown.acknowledged(grown.next_element(), 9, "l", &verdict);
  CHECK(verdict.doubled == 2);
}
