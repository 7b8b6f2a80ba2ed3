// Which keys the workers note for the heal list (DESIGN 6.4, I2b).
#include <doctest/doctest.h>

#include <set>

#include "common/base/strings.h"
#include "proxy_shim/data/command_table.h"
#include "proxy_shim/data/note_buffer.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
constexpr int kSlot = 905;

std::set<std::string> keys_of(const KeyNotes& notes) {
  std::set<std::string> out;
  for (const KeyNote& note : notes.keys) out.insert(note.key);
  return out;
}

bool noted(const std::string& line, bool timed = false) {
  std::vector<std::string_view> argv;
  for (std::string_view word : split(line, ' ')) argv.push_back(word);
  return is_noted(find_command(argv[0]), argv, timed);
}
}  // namespace

TEST_CASE("I2b: which commands are noted stands in the catalog") {
  for (const char* line :
       {"INCR k",          "incrby k 2",       "INCRBYFLOAT k 1.5", "DECR k",
        "APPEND k v",      "SETNX k v",        "SET k v NX",        "SET k v EX 10 NX",
        "SET k v xx PX 5", "SET k v VX old",   "MSETNX a 1 b 2",    "HSETNX h f v",
        "LPUSHX l v",      "RPUSHX l v",       "PERSIST k",         "EXPIRE k 10",
        "PEXPIREAT k 10",  "XADD s * f v",     "XDEL s 1-1",        "SETRANGE k 0 v",
        "SETBIT k 1 1",    "NOSUCHCOMMAND k v"}) {
    CHECK_MESSAGE(noted(line), line);
  }
  for (const char* line : {"SET k v", "SET k v EX 10", "SET k v px 10", "SETEX k 10 v", "MSET a 1",
                           "DEL k", "HSET h f v", "LPUSH l v", "SADD s m", "ZADD z 1 m", "GET k"}) {
    CHECK_MESSAGE(!noted(line), line);
  }
  // Pika 4.0 loses what is written with a TTL.
  for (const char* line : {"SETEX k 10 v", "psetex k 10 v", "SET k v EX 10", "SET k v px 10",
                           "SET k v EXAT 10", "INCR k", "SET k v NX"}) {
    CHECK_MESSAGE(noted(line, true), line);
  }
  for (const char* line : {"SET k v", "MSET a 1", "DEL k", "HSET h f v"}) {
    CHECK_MESSAGE(!noted(line, true), line);
  }
}

TEST_CASE("I2b: keys are noted once, in slots to be switched, only where the pair is faithless") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.call({"INCR", key_in(kSlot)});
  CHECK(shim.plane->take_notes().keys.empty());
  shim.table.note_writes = true;
  shim.set(SlotSet::of(3), SlotPhase::kStay);
  shim.set(SlotSet::of(7), SlotPhase::kNew);
  shim.publish();
  c.call({"SELECT", "2"});
  for (int i = 0; i < 3; ++i) c.call({"INCR", key_in(kSlot)});
  c.call({"SET", key_in(kSlot, 1), "v"});
  c.call({"SETNX", key_in(kSlot, 2), "v"});
  c.call({"MSETNX", key_in(kSlot, 3), "v", key_in(904), "v"});
  c.call({"INCR", key_in(3)});
  c.call({"INCR", key_in(7)});
  const KeyNotes notes = shim.plane->take_notes();
  CHECK(keys_of(notes) ==
        std::set<std::string>{key_in(kSlot), key_in(kSlot, 2), key_in(kSlot, 3), key_in(904)});
  CHECK(notes.keys[0].db == 2);
  CHECK(!notes.overflowed);
  CHECK(shim.plane->take_notes().keys.empty());
}

TEST_CASE("I2b: a held write is noted when it is sent") {
  ShimFixture shim;
  shim.table.note_writes = true;
  shim.publish(SlotSet::of(kSlot), SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"INCR", key_in(kSlot)});
  c.send({"SET", key_in(kSlot, 1), "v"});
  CHECK(eventually([&] { return shim.plane->stats().held_now == 2; }));
  CHECK(shim.plane->take_notes().keys.empty());
  shim.publish(SlotSet::of(kSlot), SlotPhase::kOld);
  CHECK(reply_text(c.read())[0] == ':');
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(keys_of(shim.plane->take_notes()) == std::set<std::string>{key_in(kSlot)});
}

TEST_CASE("I2b: writes that were never answered are noted, whatever they are") {
  ShimFixture shim;
  shim.table.note_writes = true;
  shim.publish();
  shim.old_server.set_rule([](const Words& request) {
    const bool waits = request[0] == "SET" || request[0] == "MSET";
    return FakeAction{waits ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual, ""};
  });
  TestClient c = shim.client();
  c.send({"SET", key_in(kSlot), "v"});
  c.send({"MSET", key_in(kSlot, 1), "v", key_in(904), "v"});
  REQUIRE(shim.old_server.wait_for("SET", 1));
  CHECK(shim.plane->take_notes().keys.empty());
  shim.old_server.close_connections();
  CHECK(reply_text(c.read())[0] == '-');
  CHECK(reply_text(c.read())[0] == '-');
  CHECK(keys_of(shim.plane->take_notes()) ==
        std::set<std::string>{key_in(kSlot), key_in(kSlot, 1), key_in(904)});
}

TEST_CASE("I9: over its bound a note buffer says so, once") {
  NoteBuffer notes(3, 100);
  for (const char* key : {"a", "b", "c", "a", "b"}) notes.note(1, 0, key);
  KeyNotes some = notes.take();
  CHECK(some.keys.size() == 3);
  CHECK(!some.overflowed);
  for (const char* key : {"a", "b", "c", "d"}) notes.note(1, 0, key);
  some = notes.take();
  CHECK(some.keys.size() == 3);
  CHECK(some.overflowed);
  notes.note(1, 0, std::string(200, 'x'));
  CHECK(notes.take().overflowed);
  CHECK(!notes.take().overflowed);
}
