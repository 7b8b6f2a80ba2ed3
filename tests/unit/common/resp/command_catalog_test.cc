#include "common/resp/command_catalog.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "common/base/random.h"
#include "common/base/strings.h"

using namespace sf;

namespace {

using Fields = std::vector<std::string>;

std::vector<Fields> golden(const std::string& name) {
  std::ifstream in(std::string(SF_SOURCE_DIR) + "/tests/golden/resp/" + name);
  REQUIRE(in.good());
  std::vector<Fields> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    Fields fields;
    for (const auto part : split(line, '\t')) fields.emplace_back(part);
    rows.push_back(std::move(fields));
  }
  return rows;
}

bool has(const std::string& flags, const std::string& flag) {
  for (const auto part : split(flags, ',')) {
    if (part == flag) return true;
  }
  return false;
}

Fields words(const std::string& text) {
  Fields out;
  for (const auto part : split(text, ' ')) out.emplace_back(part == "\"\"" ? "" : part);
  return out;
}

// The keys of a request, "?" if the arguments do not say.
Fields keys_of(const std::string& text) {
  const Fields request = words(text);
  const std::vector<std::string_view> argv(request.begin(), request.end());
  const CommandSpec* spec = find_command(argv[0]);
  REQUIRE(spec != nullptr);
  std::vector<int> positions;
  if (!key_positions(*spec, argv, &positions)) return {"?"};
  Fields keys;
  for (const int position : positions) keys.push_back(request[static_cast<size_t>(position)]);
  return keys;
}

}  // namespace

TEST_CASE("catalog: every command of Redis 7.0.15 with its arity, keys and flags") {
  for (const Fields& row : golden("redis-7.0.15-commands.tsv")) {
    CAPTURE(row[0]);
    const CommandSpec* spec = find_command(row[0]);
    REQUIRE(spec != nullptr);
    // Pika's SLAVEOF takes a third word, `force`.
    const bool longer = row[0] == "slaveof" || row[0] == "replicaof";
    CHECK(spec->arity == (longer ? -3 : *parse_int64(row[1])));
    CHECK(spec->first_key == *parse_int64(row[2]));
    CHECK(spec->last_key == *parse_int64(row[3]));
    CHECK(spec->key_step == *parse_int64(row[4]));
    if (has(row[5], "write")) CHECK(spec->is(kCmdWrite));
    if (has(row[5], "readonly")) CHECK(spec->is(kCmdRead));
    if (has(row[5], "readonly")) CHECK_FALSE(spec->is(kCmdWrite));
    if (has(row[5], "admin")) CHECK(spec->is(kCmdAdmin));
    CHECK(spec->is(kCmdBlocking) == has(row[5], "blocking"));
    CHECK(spec->is(kCmdNoAuth) == has(row[5], "no_auth"));
    CHECK(spec->is(kCmdFast) == has(row[5], "fast"));
    CHECK(spec->is(kCmdDenyOom) == has(row[5], "denyoom"));
    CHECK(spec->is(kCmdPubSub) == has(row[5], "pubsub"));
    if (has(row[5], "movablekeys")) CHECK(spec->is(kCmdMovableKeys));
  }
}

TEST_CASE("catalog: every command of Pika; arity is Redis's where both have it") {
  for (const Fields& row : golden("pika-commands.tsv")) {
    CAPTURE(row[0]);
    CHECK(find_command(row[0]) != nullptr);
  }
  CHECK(find_command("pksetexat")->arity == 4);
  CHECK(find_command("pkhscanrange")->first_key == 1);
  CHECK(find_command("pkscanrange")->is(kCmdKeyless));
  CHECK(find_command("slotsmgrt-exec-wrapper")->arity == -3);
}

TEST_CASE("catalog: Codis's and our own") {
  for (const char* name : {"SLOTSINFO",
                           "SLOTSSCAN",
                           "SLOTSDEL",
                           "SLOTSHASHKEY",
                           "SLOTSMAPPING",
                           "SLOTSCHECK",
                           "SLOTSMGRTONE",
                           "SLOTSMGRTSLOT",
                           "SLOTSMGRTTAGONE",
                           "SLOTSMGRTTAGSLOT",
                           "SLOTSMGRTONE-ASYNC",
                           "SLOTSMGRTSLOT-ASYNC",
                           "SLOTSMGRTTAGONE-ASYNC",
                           "SLOTSMGRTTAGSLOT-ASYNC",
                           "SLOTSMGRT-ASYNC-FENCE",
                           "SLOTSMGRT-ASYNC-CANCEL",
                           "SLOTSMGRT-ASYNC-STATUS",
                           "SLOTSMGRT-EXEC-WRAPPER",
                           "SLOTSRESTORE",
                           "SLOTSRESTORE-ASYNC",
                           "SLOTSRESTORE-ASYNC-AUTH",
                           "SLOTSRESTORE-ASYNC-ACK"}) {
    CAPTURE(name);
    REQUIRE(find_command(name) != nullptr);
    CHECK(find_command(name)->is(kCmdSlots));
    const std::string_view text(name);
    CHECK(find_command(name)->is(kCmdMigration) ==
          (text.starts_with("SLOTSMGRT") || text.starts_with("SLOTSRESTORE")));
  }
  for (const char* name : {"PKCLUSTER", "REPLICATION", "SHIM"}) CHECK(find_command(name));
}

TEST_CASE("catalog: lookup ignores case, knows nothing else, indexes are dense") {
  CHECK(find_command("gEt") == find_command("GET"));
  CHECK(find_command("slotsmgrttagslot-ASYNC")->name == "SLOTSMGRTTAGSLOT-ASYNC");
  const std::string nul_at_end("GET\0", 4);
  for (const std::string& name :
       {std::string(), std::string("GE"), std::string("GETT"), std::string("NOSUCH"), nul_at_end,
        std::string(1000, 'x'), std::string("G@T"), std::string("SLOTSMGRTTAGSLOT\rASYNC")}) {
    CAPTURE(printable(name));
    CHECK(find_command(name) == nullptr);
  }
  std::set<std::string_view> names;
  size_t index = 0;
  for (const CommandSpec& spec : all_commands()) {
    CAPTURE(spec.name);
    CHECK(spec.index == index++);
    CHECK(names.insert(spec.name).second);
    CHECK(find_command(spec.name) == &spec);
    CHECK(find_command(to_lower(spec.name)) == &spec);
    CHECK(spec.arity != 0);
  }
  CHECK(index == catalog_size());
  Random random(5);
  for (int i = 0; i < 100000; ++i) {
    std::string name(random.below(34), ' ');
    for (char& c : name) c = static_cast<char>(random.below(256));
    (void)find_command(name);
  }
}

TEST_CASE("catalog: what may share a connection (DESIGN 6.5)") {
  for (const CommandSpec& spec : all_commands()) {
    CAPTURE(spec.name);
    if (spec.is(kCmdConnection) || spec.is(kCmdBlocking)) CHECK_FALSE(spec.is(kCmdOneReply));
    if (spec.is(kCmdKeyless)) CHECK(spec.first_key == 0);
    if (spec.split != SplitRule::kNone) CHECK(spec.is(kCmdOneReply));
  }
  for (const char* name : {"GET", "SET", "MGET", "EVAL", "INFO", "PING", "SPOP", "MIGRATE"}) {
    CAPTURE(name);
    CHECK(find_command(name)->is(kCmdOneReply));
  }
  for (const char* name :
       {"DUMMY",     "CLIENT",      "SUBSCRIBE", "MONITOR",  "SELECT",
        "AUTH",      "HELLO",       "MULTI",     "EXEC",     "WATCH",
        "SHUTDOWN",  "SYNC",        "PSYNC",     "REPLCONF", "BLPOP",
        "XREAD",     "QUIT",        "RESET",     "WAIT",     "SLOTSRESTORE-ASYNC-AUTH",
        "PKCLUSTER", "REPLICATION", "SCRIPT",    "DEBUG"}) {
    CAPTURE(name);
    CHECK_FALSE(find_command(name)->is(kCmdOneReply));
  }
}

TEST_CASE("catalog: keys as COMMAND GETKEYS of Redis 7.0.15 finds them") {
  for (const Fields& row : golden("redis-7.0.15-getkeys.tsv")) {
    CAPTURE(row[0]);
    CHECK(keys_of(row[0]) == (row[1].empty() ? Fields{} : words(row[1])));
  }
}

TEST_CASE("catalog: keys of Codis's commands") {
  CHECK(keys_of("SLOTSMGRTTAGONE h 1 3000 k") == Fields{"k"});
  CHECK(keys_of("SLOTSMGRT-EXEC-WRAPPER k GET k") == Fields{"k"});
  CHECK(keys_of("SLOTSRESTORE a 0 x b 0 y") == Fields{"a", "b"});
  CHECK(keys_of("SLOTSMGRTTAGONE-ASYNC h 1 3000 1 1 a b") == Fields{"a", "b"});
  CHECK(keys_of("SLOTSDEL 5").empty());
}

TEST_CASE("C42: key counts that the arguments do not bear are refused") {
  for (const char* text : {"ZINTERSTORE o 9223372036854775807 a",
                           "ZUNIONSTORE o 1000000000 a",
                           "ZINTERSTORE o 0 a",
                           "ZUNIONSTORE o -1 a",
                           "EVAL s 1000000000 a",
                           "EVAL s -1 a",
                           "EVAL s x a",
                           "ZUNION 3 a b",
                           "LMPOP 0 LEFT",
                           "BLMPOP 0 0 LEFT",
                           "XREAD STREAMS a b 0",
                           "XREAD STREAMS",
                           "XREAD COUNT 1 a 0",
                           "GET",
                           "MIGRATE h 1 \"\" 0 100",
                           "MIGRATE h 1 \"\" 0 100 KEYS",
                           "EVAL",
                           "ZUNIONSTORE d",
                           "SORT",
                           "RENAME a",
                           "GEORADIUS a 1"}) {
    CAPTURE(text);
    CHECK(keys_of(text) == Fields{"?"});
  }
}

TEST_CASE("catalog: random arguments never give a position outside them") {
  Random random(99);
  const Fields pool = {"2",    "STREAMS", "STORE", "KEYS",         "-1", "",     "GET",
                       "AUTH", "COUNT",   "GROUP", "999999999999", "0",  "USAGE"};
  std::vector<std::string_view> argv;
  std::vector<int> positions;
  for (int round = 0; round < 200000; ++round) {
    const CommandSpec& spec = all_commands()[random.below(catalog_size())];
    argv.assign(1, spec.name);
    const size_t more = random.below(9);
    for (size_t i = 0; i < more; ++i) argv.push_back(pool[random.below(pool.size())]);
    positions.clear();
    (void)key_positions(spec, argv, &positions);
    for (const int position : positions) {
      REQUIRE(position > 0);
      REQUIRE(static_cast<size_t>(position) < argv.size());
    }
  }
}
