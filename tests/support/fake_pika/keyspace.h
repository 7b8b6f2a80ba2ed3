// The data of one database or slot of the fake Pika, and its commands with what they leave in the
// binlog, unfaithful where the real one is (recorded from 3.5.5). Each type has a keyspace of its
// own, as there. Pure; one owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sf::fake_pika {

using Words = std::vector<std::string>;

// What a server does otherwise than one thinks, each recorded from a real one.
struct LogFaults {
  bool ttl_lost = false;      // INCR*, APPEND on a key with a TTL are logged without it
  bool append_empty = false;  // APPEND that creates a key is logged with an empty value
  // 4.0 counts in milliseconds: a logged time is cut to 32 bits of them, so the key is gone on a
  // replica; and what it has from whole seconds reads one less.
  // The record of a PSETEX has milliseconds where a replica reads seconds, and it stays before it.
  bool timed_lost = false;
  bool ttl_short = false;
};

class Keyspace {
 public:
  struct Outcome {
    std::string reply;        // RESP
    std::vector<Words> logs;  // binlog items, in order
  };

  // Nothing: no command of the data. `now_s` is the wall clock.
  std::optional<Outcome> execute(const Words& argv, int64_t now_s, const LogFaults& faults);
  static bool is_write(const std::string& lower_name);

  // Commands that make this keyspace out of an empty one.
  std::vector<Words> dump(bool with_streams, int64_t now_s) const;
  void clear();
  size_t size() const;

 private:
  enum Type { kString, kHash, kList, kSet, kZset, kStream, kTypes };
  struct Value {
    std::string text;
    std::map<std::string, std::string> fields;  // hash, set (empty values), zset (scores), stream
    std::deque<std::string> list;
    int64_t expire_s = 0;  // 0: none
  };
  using Values = std::map<std::string, Value>;

  Value* find(Type type, const std::string& key);
  int64_t count(const std::string& key);
  std::string scan(const Words& argv) const;
  int64_t erase(const std::string& key);
  void purge(int64_t now_s);
  void expires_at(int64_t s);  // a key does, or 0
  void drop_if_empty(Type type, const std::string& key);

  Outcome strings(const std::string& name, const Words& argv, int64_t now_s,
                  const LogFaults& faults);
  Outcome set(const Words& argv, int64_t now_s);
  Outcome change(const std::string& name, const Words& argv, const LogFaults& faults);
  Outcome keys(const std::string& name, const Words& argv, int64_t now_s, const LogFaults& faults);
  Outcome fields(const std::string& name, const Words& argv, Type type);
  Outcome lists(const std::string& name, const Words& argv);
  Outcome streams(const std::string& name, const Words& argv, int64_t now_s);

  Values values_[kTypes];
  int64_t next_expiry_s_ = INT64_MAX;  // no key expires before it
  uint64_t next_stream_id_ = 1;
};

}  // namespace sf::fake_pika
