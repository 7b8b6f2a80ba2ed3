#include "replication/history.h"

#include <doctest/doctest.h>

#include "common/base/random.h"

namespace sf {
namespace {

std::string id(char c) {
  return std::string(40, c);
}

HistoryChain chain_abc() {
  HistoryChain chain;
  REQUIRE(chain.add({id('a'), "", 0}));
  REQUIRE(chain.add({id('b'), id('a'), 100}));
  REQUIRE(chain.add({id('c'), id('b'), 150}));
  return chain;
}

TEST_CASE("histories: a position is a prefix up to the lowest fork after it (R21)") {
  HistoryChain chain = chain_abc();
  struct Row {
    char history;
    uint64_t seq;
    bool prefix;
  };
  for (Row row : {Row{'a', 0, true}, Row{'a', 100, true}, Row{'a', 101, false}, Row{'b', 50, true},
                  Row{'b', 150, true}, Row{'b', 151, false}, Row{'c', 150, true},
                  Row{'c', 200, true}, Row{'c', 201, false}, Row{'d', 1, false}}) {
    CAPTURE(row.history);
    CAPTURE(row.seq);
    CHECK(chain.is_prefix({id(row.history), row.seq}, 200) == row.prefix);
  }
  CHECK_FALSE(chain.is_prefix({"", 0}, 200));
}

TEST_CASE("histories: a tail lost at a crash is not part of the log (R18, R21)") {
  HistoryChain chain;
  REQUIRE(chain.add({id('a'), "", 0}));
  REQUIRE(chain.add({id('b'), id('a'), 50}));  // a was at 60, 10 batches unsynced
  CHECK_FALSE(chain.is_prefix({id('a'), 60}, 300));
  CHECK(chain.is_prefix({id('a'), 50}, 300));
}

TEST_CASE("histories: a fork below an earlier fork limits it too") {
  HistoryChain chain;
  REQUIRE(chain.add({id('a'), "", 0}));
  REQUIRE(chain.add({id('b'), id('a'), 100}));
  REQUIRE(chain.add({id('c'), id('b'), 90}));
  CHECK_FALSE(chain.is_prefix({id('a'), 95}, 500));
  CHECK_FALSE(chain.is_prefix({id('b'), 95}, 500));
  CHECK(chain.is_prefix({id('b'), 90}, 500));
}

TEST_CASE("histories: covers compares positions of different histories") {
  HistoryChain chain = chain_abc();
  CHECK(chain.covers({id('c'), 180}, {id('a'), 100}));
  CHECK_FALSE(chain.covers({id('c'), 180}, {id('a'), 101}));
  CHECK_FALSE(chain.covers({id('c'), 90}, {id('a'), 100}));
  CHECK_FALSE(chain.covers({id('a'), 500}, {id('c'), 10}));
  CHECK(chain.covers({id('x'), 5}, {id('x'), 5}));
  CHECK_FALSE(chain.covers({id('x'), 5}, {id('y'), 5}));
}

TEST_CASE("histories: a history nobody wrote in is named by its parent") {
  HistoryChain chain = chain_abc();
  CHECK(chain.normalize({id('c'), 150}) == Position{id('b'), 150});
  CHECK(chain.normalize({id('b'), 100}) == Position{id('a'), 100});
  CHECK(chain.normalize({id('c'), 151}) == Position{id('c'), 151});
}

TEST_CASE("histories: text form survives, nonsense is refused") {
  HistoryChain chain = chain_abc();
  auto back = HistoryChain::decode(chain.encode());
  REQUIRE(back);
  CHECK(back->entries() == chain.entries());
  CHECK(HistoryChain::decode("")->empty());
  for (const char* bad : {"x", "a:b:c", "aa:-:1", ":::"}) CHECK_FALSE(HistoryChain::decode(bad));
  CHECK_FALSE(chain.add({id('d'), id('a'), 1}));
  CHECK_FALSE(chain.add({id('a'), id('c'), 1}));
}

TEST_CASE(
    "histories: three nodes, lost tails and failover never agree at different data (R18, R21)") {
  // history.pml as a random walk: "taken on" must imply equal content.
  struct NodeLog {
    std::vector<int> log;
    size_t durable = 0;
    HistoryChain chain;
    Position at() const { return {chain.current(), log.size()}; }
  };
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    NodeLog nodes[3];
    size_t lead = 0;
    int next_write = 0;
    auto begin = [&](NodeLog& n) {
      REQUIRE(n.chain.add({random.hex(40), n.chain.current(), n.log.size()}));
    };
    begin(nodes[0]);
    for (int step = 0; step < 60; ++step) {
      NodeLog& master = nodes[lead];
      switch (random.below(6)) {
        case 0:
        case 1:
          master.log.push_back(++next_write);
          break;
        case 2:
          master.durable = master.log.size();
          break;
        case 3:  // power loss: the unsynced tail is gone
          master.log.resize(std::max(master.durable, master.log.size() - master.log.size() % 3));
          master.durable = master.log.size();
          begin(master);
          break;
        case 4:
          lead = random.below(3);
          if (!nodes[lead].chain.empty())
            begin(nodes[lead]);
          else
            nodes[lead].chain = HistoryChain(), begin(nodes[lead]);
          break;
        default: {
          NodeLog& peer = nodes[(lead + 1 + random.below(2)) % 3];
          if (master.chain.is_prefix(peer.at(), master.log.size())) {
            CAPTURE(seed);
            bool same = std::equal(peer.log.begin(), peer.log.end(), master.log.begin());
            REQUIRE(same);
          } else {
            peer.log.clear();
          }
          peer.log.assign(master.log.begin(),
                          master.log.begin() +
                              std::max(peer.log.size(), master.log.size() - master.log.size() / 4));
          peer.durable = peer.log.size();
          peer.chain = master.chain;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sf
