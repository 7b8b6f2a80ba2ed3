#include "tests/support/fake_pika/keyspace.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf::fake_pika {
namespace {

const std::set<std::string> kStringNames = {
    "get",  "set",    "setex", "psetex", "setnx",  "getset",    "mget",        "mset",    "append",
    "incr", "incrby", "decr",  "decrby", "strlen", "pksetexat", "incrbyfloat", "getrange"};
const std::set<std::string> kKeyNames = {"del",     "unlink",  "exists",  "expire", "expireat",
                                         "ttl",     "persist", "type",    "ptype",  "dbsize",
                                         "flushdb", "keys",    "pexpire", "scan",   "pttl"};
const std::set<std::string> kHashNames = {"hset", "hmset", "hget", "hdel", "hgetall", "hlen"};
const std::set<std::string> kSetNames = {"sadd", "srem", "smembers", "scard"};
const std::set<std::string> kZsetNames = {"zadd", "zrem", "zrange", "zcard", "zscan"};
const std::set<std::string> kListNames = {"lpush", "rpush", "lpop", "rpop", "lrange", "llen"};
const std::set<std::string> kStreamNames = {"xadd", "xlen", "xrange", "xdel"};
const std::set<std::string> kReads = {
    "get",  "mget", "strlen", "exists",   "ttl",   "type",   "ptype",    "dbsize",
    "keys", "hget", "hlen",   "hgetall",  "scard", "zrange", "zcard",    "lrange",
    "llen", "xlen", "xrange", "smembers", "scan",  "pttl",   "getrange", "zscan"};

std::string ok() {
  std::string out;
  resp::status(out, "OK");
  return out;
}
std::string number(int64_t value) {
  std::string out;
  resp::integer(out, value);
  return out;
}
std::string error(std::string_view text) {
  std::string out;
  resp::error(out, cat("ERR ", text));
  return out;
}
std::string bulk_or_nil(const std::string* value) {
  std::string out;
  if (value == nullptr) resp::nil(out);
  if (value != nullptr) resp::bulk(out, *value);
  return out;
}
Words lowered(Words argv) {
  argv[0] = to_lower(argv[0]);
  return argv;
}
int64_t to_number(const std::string& text) {
  return parse_int64(text).value_or(0);
}

}  // namespace

bool Keyspace::is_write(const std::string& name) {
  for (const auto* names : {&kStringNames, &kKeyNames, &kHashNames, &kSetNames, &kZsetNames,
                            &kListNames, &kStreamNames}) {
    if (names->contains(name)) return !kReads.contains(name);
  }
  return false;
}

void Keyspace::clear() {
  for (Values& values : values_) values.clear();
}

size_t Keyspace::size() const {
  size_t out = 0;
  for (int type = kString; type < kStream; ++type) out += values_[type].size();
  return out;
}

void Keyspace::purge(int64_t now_s) {
  if (now_s < next_expiry_s_) return;
  next_expiry_s_ = INT64_MAX;
  for (Values& values : values_) {
    std::erase_if(values, [&](const auto& entry) {
      if (entry.second.expire_s != 0 && entry.second.expire_s <= now_s) return true;
      expires_at(entry.second.expire_s);
      return false;
    });
  }
}

void Keyspace::expires_at(int64_t s) {
  if (s != 0) next_expiry_s_ = std::min(next_expiry_s_, s);
}

Keyspace::Value* Keyspace::find(Type type, const std::string& key) {
  const auto found = values_[type].find(key);
  return found == values_[type].end() ? nullptr : &found->second;
}

int64_t Keyspace::count(const std::string& key) {
  int64_t out = 0;
  for (int type = kString; type < kStream; ++type)
    out += find(static_cast<Type>(type), key) != nullptr;
  return out;
}

// The cursor is the number of names passed already; all types of a name are one.
std::string Keyspace::scan(const Words& argv) const {
  std::set<std::string> names;
  for (const Values& values : values_) {
    for (const auto& [key, value] : values) names.insert(key);
  }
  const auto first = static_cast<size_t>(to_number(argv.at(1)));
  size_t most = 10;
  for (size_t i = 2; i + 1 < argv.size(); ++i) {
    if (to_lower(argv[i]) == "count") most = static_cast<size_t>(to_number(argv[i + 1]));
  }
  const size_t last = std::min(names.size(), first + most);
  std::string page;
  size_t at = 0;
  for (const std::string& name : names) {
    if (at >= first && at < last) resp::bulk(page, name);
    ++at;
  }
  std::string out;
  resp::array(out, 2);
  resp::bulk(out, std::to_string(last == names.size() ? 0 : last));
  resp::array(out, last > first ? last - first : 0);
  return out + page;
}

int64_t Keyspace::erase(const std::string& key) {
  int64_t out = 0;
  for (Values& values : values_) out += static_cast<int64_t>(values.erase(key));
  return out;
}

void Keyspace::drop_if_empty(Type type, const std::string& key) {
  const Value* value = find(type, key);
  if (value != nullptr && value->fields.empty() && value->list.empty()) values_[type].erase(key);
}

std::optional<Keyspace::Outcome> Keyspace::execute(const Words& argv, int64_t now_s,
                                                   const LogFaults& faults) {
  const std::string name = to_lower(argv[0]);
  const bool keyless = name == "dbsize" || name == "flushdb";
  const auto known = [&](const std::set<std::string>& names) { return names.contains(name); };
  const bool any = known(kStringNames) || known(kKeyNames) || known(kHashNames) ||
                   known(kSetNames) || known(kZsetNames) || known(kListNames) ||
                   known(kStreamNames);
  if (!any) return std::nullopt;
  if (argv.size() < 2 && !keyless) {
    return Outcome{error(cat("wrong number of arguments for '", name, "' command")), {}};
  }
  purge(now_s);
  if (known(kStringNames)) return strings(name, argv, now_s, faults);
  if (known(kKeyNames)) return keys(name, argv, now_s, faults);
  if (known(kHashNames)) return fields(name, argv, kHash);
  if (known(kSetNames)) return fields(name, argv, kSet);
  if (known(kZsetNames)) return fields(name, argv, kZset);
  if (known(kListNames)) return lists(name, argv);
  return streams(name, argv, now_s);
}

Keyspace::Outcome Keyspace::set(const Words& argv, int64_t now_s) {
  bool nx = false, xx = false;
  int64_t ttl_s = 0;
  for (size_t i = 3; i < argv.size(); ++i) {
    const std::string option = to_lower(argv[i]);
    nx = nx || option == "nx";
    xx = xx || option == "xx";
    if (option == "ex" && i + 1 < argv.size()) ttl_s = to_number(argv[++i]);
    if (option == "px" && i + 1 < argv.size()) ttl_s = to_number(argv[++i]) / 1000;
  }
  Outcome out;
  // With a condition it is logged as given: the replica judges it again and restarts the TTL.
  if (nx || xx) out.logs.push_back(lowered(argv));
  if (!nx && !xx && ttl_s > 0) {
    out.logs.push_back({"pksetexat", argv[1], std::to_string(now_s + ttl_s), argv[2]});
  } else if (!nx && !xx) {
    out.logs.push_back({"set", argv[1], argv[2]});
  }
  const bool there = find(kString, argv[1]) != nullptr;
  out.reply = ok();
  if ((nx && there) || (xx && !there)) {
    out.reply.clear();
    resp::nil(out.reply);
    return out;
  }
  Value value;
  value.text = argv[2];
  value.expire_s = ttl_s > 0 ? now_s + ttl_s : 0;
  expires_at(value.expire_s);
  values_[kString][argv[1]] = value;
  return out;
}

// INCR and its like, APPEND: logged as pksetexat with the new value.
Keyspace::Outcome Keyspace::change(const std::string& name, const Words& argv,
                                   const LogFaults& faults) {
  const bool fresh = find(kString, argv[1]) == nullptr;
  Value& value = values_[kString][argv[1]];
  Outcome out;
  if (name == "append") {
    value.text += argv[2];
    out.reply = number(static_cast<int64_t>(value.text.size()));
  } else if (name == "incrbyfloat") {
    value.text = resp::format_double(std::strtod(value.text.c_str(), nullptr) +
                                     std::strtod(argv[2].c_str(), nullptr));
    resp::bulk(out.reply, value.text);
  } else {
    int64_t by = argv.size() > 2 ? to_number(argv[2]) : 1;
    if (name.starts_with("decr")) by = -by;
    value.text = std::to_string(to_number(value.text) + by);
    out.reply = number(to_number(value.text));
  }
  if (name.starts_with("decr")) {
    out.logs.push_back(lowered(argv));
    return out;
  }
  const bool empty = name == "append" && fresh && faults.append_empty;
  out.logs.push_back({"pksetexat", argv[1], faults.ttl_lost ? "0" : std::to_string(value.expire_s),
                      empty ? "" : value.text});
  return out;
}

Keyspace::Outcome Keyspace::strings(const std::string& name, const Words& argv, int64_t now_s,
                                    const LogFaults& faults) {
  const std::string& key = argv[1];
  Value* value = find(kString, key);
  Outcome out;
  if (name == "get") {
    out.reply = bulk_or_nil(value == nullptr ? nullptr : &value->text);
  } else if (name == "mget") {
    resp::array(out.reply, argv.size() - 1);
    for (size_t i = 1; i < argv.size(); ++i) {
      const Value* one = find(kString, argv[i]);
      out.reply += bulk_or_nil(one == nullptr ? nullptr : &one->text);
    }
  } else if (name == "getrange") {
    const std::string text = value == nullptr ? "" : value->text;
    resp::bulk(out.reply,
               std::string_view(text).substr(
                   std::min(text.size(), static_cast<size_t>(to_number(argv.at(2)))),
                   static_cast<size_t>(to_number(argv.at(3)) - to_number(argv.at(2)) + 1)));
  } else if (name == "strlen") {
    out.reply = number(value == nullptr ? 0 : static_cast<int64_t>(value->text.size()));
  } else if (name == "set") {
    return argv.size() < 3 ? Outcome{error("syntax error"), {}} : set(argv, now_s);
  } else if (name == "setex" || name == "psetex") {
    const int64_t ttl = to_number(argv.at(2)) / (name == "psetex" ? 1000 : 1);
    Outcome timed = set({"set", key, argv.at(3), "ex", std::to_string(ttl)}, now_s);
    if (faults.timed_lost && name == "psetex") timed.logs[0][2] += "000";
    return timed;
  } else if (name == "setnx") {
    out.logs.push_back(lowered(argv));
    out.reply = number(value == nullptr ? 1 : 0);
    if (value == nullptr) values_[kString][key].text = argv.at(2);
  } else if (name == "getset") {
    out.logs.push_back(lowered(argv));
    out.reply = bulk_or_nil(value == nullptr ? nullptr : &value->text);
    Value fresh;
    fresh.text = argv.at(2);
    values_[kString][key] = fresh;
  } else if (name == "mset") {
    out.reply = ok();
    for (size_t i = 1; i + 1 < argv.size(); i += 2) {
      out.logs.push_back({"set", argv[i], argv[i + 1]});
      Value fresh;
      fresh.text = argv[i + 1];
      values_[kString][argv[i]] = fresh;
    }
  } else if (name == "pksetexat") {
    Value fresh;
    fresh.text = argv.at(3);
    fresh.expire_s = to_number(argv.at(2));
    expires_at(fresh.expire_s);
    values_[kString][key] = fresh;
    if (faults.timed_lost && fresh.expire_s != 0) values_[kString].erase(key);
    purge(now_s);
    out.reply = ok();
    out.logs.push_back(lowered(argv));
  } else {
    return change(name, argv, faults);
  }
  return out;
}

Keyspace::Outcome Keyspace::keys(const std::string& name, const Words& argv, int64_t now_s,
                                 const LogFaults& faults) {
  Outcome out;
  if (name == "dbsize") return {number(static_cast<int64_t>(size())), {}};
  if (name == "flushdb") {
    clear();
    return {ok(), {{"flushdb"}}};
  }
  if (name == "scan") return {scan(argv), {}};
  if (name == "keys") {
    std::vector<std::string> found;
    for (int type = kString; type < kStream; ++type) {
      for (const auto& [key, value] : values_[type]) {
        if (glob_match(argv[1], key)) found.push_back(key);
      }
    }
    resp::array(out.reply, found.size());
    for (const std::string& key : found) resp::bulk(out.reply, key);
    return out;
  }
  if (name == "del" || name == "unlink" || name == "exists") {
    int64_t n = 0;
    for (size_t i = 1; i < argv.size(); ++i) {
      n += name == "exists" ? count(argv[i]) : erase(argv[i]);
      if (name != "exists") out.logs.push_back({name, argv[i]});
    }
    out.reply = number(n);
    return out;
  }
  static const char* const kNames[] = {"string", "hash", "list", "set", "zset"};
  if (name == "type" || name == "ptype") {
    std::string type = "none";
    for (int i = kZset; i >= kString; --i) {
      if (find(static_cast<Type>(i), argv[1]) != nullptr) type = kNames[i];
    }
    resp::status(out.reply, type);
    return out;
  }
  int64_t ttl = -2, touched = 0;
  int64_t until = 0;
  if (name == "expire") until = now_s + to_number(argv.at(2));
  if (name == "pexpire") until = now_s + to_number(argv.at(2)) / 1000;
  if (name == "expireat") until = to_number(argv.at(2));
  for (int i = kString; i < kStream; ++i) {
    Value* value = find(static_cast<Type>(i), argv[1]);
    if (value == nullptr) continue;
    if (ttl == -2) ttl = value->expire_s == 0 ? -1 : value->expire_s - now_s;
    if (name == "ttl" || name == "pttl" || (name == "persist" && value->expire_s == 0)) continue;
    value->expire_s = name == "persist" ? 0 : std::max<int64_t>(until, 1);
    expires_at(value->expire_s);
    ++touched;
  }
  if (ttl > 0 && faults.ttl_short) --ttl;
  if (name == "ttl") return {number(ttl), {}};
  if (name == "pttl") return {number(ttl > 0 ? ttl * 1000 : ttl), {}};
  if (name == "persist") return {number(touched), {lowered(argv)}};
  purge(now_s);
  return {number(touched), {{"expireat", argv[1], std::to_string(until)}}};
}

Keyspace::Outcome Keyspace::fields(const std::string& name, const Words& argv, Type type) {
  const std::string& key = argv[1];
  Value* value = find(type, key);
  Outcome out;
  if (name == "hget") {
    const auto at =
        value == nullptr ? decltype(value->fields.end()){} : value->fields.find(argv.at(2));
    const bool there = value != nullptr && at != value->fields.end();
    out.reply = bulk_or_nil(there ? &at->second : nullptr);
  } else if (name == "hlen" || name == "scard" || name == "zcard") {
    out.reply = number(value == nullptr ? 0 : static_cast<int64_t>(value->fields.size()));
  } else if (name == "hgetall" || name == "smembers" || name == "zrange") {
    const bool scores = name == "zrange" && argv.size() > 4;
    std::vector<std::pair<std::string, std::string>> rows;
    if (value != nullptr) rows.assign(value->fields.begin(), value->fields.end());
    if (name == "zrange") {
      std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
        return std::strtod(a.second.c_str(), nullptr) < std::strtod(b.second.c_str(), nullptr);
      });
    }
    const bool pairs = name == "hgetall" || scores;
    resp::array(out.reply, rows.size() * (pairs ? 2 : 1));
    for (const auto& [field, content] : rows) {
      resp::bulk(out.reply, field);
      if (pairs) resp::bulk(out.reply, content);
    }
  } else if (name == "zscan") {
    resp::array(out.reply, 2);
    resp::bulk(out.reply, "0");
    resp::array(out.reply, value == nullptr ? 0 : value->fields.size() * 2);
    if (value == nullptr) return out;
    for (const auto& [member, score] : value->fields) {
      resp::bulk(out.reply, member);
      resp::bulk(out.reply, score);
    }
  } else if (name == "hdel" || name == "srem" || name == "zrem") {
    out.logs.push_back(lowered(argv));
    int64_t n = 0;
    for (size_t i = 2; i < argv.size() && value != nullptr; ++i)
      n += static_cast<int64_t>(value->fields.erase(argv[i]));
    drop_if_empty(type, key);
    out.reply = number(n);
  } else {
    out.logs.push_back(lowered(argv));
    Value& target = values_[type][key];
    int64_t added = 0;
    const size_t step = type == kSet ? 1 : 2;
    for (size_t i = 2; i + step <= argv.size(); i += step) {
      const std::string& field = type == kZset ? argv[i + 1] : argv[i];
      const std::string content = type == kSet ? "" : type == kZset ? argv[i] : argv[i + 1];
      added += target.fields.contains(field) ? 0 : 1;
      target.fields[field] = content;
    }
    out.reply = name == "hmset" ? ok() : number(added);
  }
  return out;
}

Keyspace::Outcome Keyspace::lists(const std::string& name, const Words& argv) {
  const std::string& key = argv[1];
  Value* value = find(kList, key);
  Outcome out;
  if (name == "llen")
    return {number(value == nullptr ? 0 : static_cast<int64_t>(value->list.size())), {}};
  if (name == "lrange") {
    const size_t n = value == nullptr ? 0 : value->list.size();
    resp::array(out.reply, n);  // the whole list: tests ask for 0 -1 only
    for (size_t i = 0; i < n; ++i) resp::bulk(out.reply, value->list[i]);
    return out;
  }
  out.logs.push_back(lowered(argv));
  if (name == "lpop" || name == "rpop") {
    if (value == nullptr) return {bulk_or_nil(nullptr), out.logs};
    const bool left = name == "lpop";
    const std::string popped = left ? value->list.front() : value->list.back();
    if (left) value->list.pop_front();
    if (!left) value->list.pop_back();
    drop_if_empty(kList, key);
    out.reply = bulk_or_nil(&popped);
    return out;
  }
  std::deque<std::string>& list = values_[kList][key].list;
  for (size_t i = 2; i < argv.size(); ++i) {
    if (name == "lpush") list.push_front(argv[i]);
    if (name == "rpush") list.push_back(argv[i]);
  }
  out.reply = number(static_cast<int64_t>(list.size()));
  return out;
}

Keyspace::Outcome Keyspace::streams(const std::string& name, const Words& argv, int64_t now_s) {
  const std::string& key = argv[1];
  Value* value = find(kStream, key);
  Outcome out;
  if (name == "xlen") {
    if (value == nullptr) return {error("no such key"), {}};
    return {number(static_cast<int64_t>(value->fields.size())), {}};
  }
  if (name == "xrange") {
    const size_t n = value == nullptr ? 0 : value->fields.size();
    resp::array(out.reply, n);
    if (n == 0) return out;
    for (const auto& [id, content] : value->fields) {
      resp::array(out.reply, 2);
      resp::bulk(out.reply, id);
      resp::array(out.reply, 2);
      resp::bulk(out.reply, content.substr(0, content.find('\0')));
      resp::bulk(out.reply, content.substr(content.find('\0') + 1));
    }
    return out;
  }
  if (name == "xdel") {
    const int64_t n = value == nullptr ? 0 : static_cast<int64_t>(value->fields.erase(argv.at(2)));
    return {number(n), {lowered(argv)}};
  }
  if (argv.size() != 5) return {error("wrong number of arguments for 'xadd' command"), {}};
  Words log = lowered(argv);
  if (log[2] == "*") log[2] = cat(now_s * 1000, "-", next_stream_id_);
  // An id of a server's own is above all it holds, those that came by replication too.
  const auto number = parse_uint64(std::string_view(log[2]).substr(log[2].find('-') + 1));
  next_stream_id_ = std::max(next_stream_id_, number.value_or(0) + 1);
  values_[kStream][key].fields[log[2]] = log[3] + std::string(1, '\0') + log[4];
  resp::bulk(out.reply, log[2]);
  out.logs.push_back(log);
  return out;
}

std::vector<Words> Keyspace::dump(bool with_streams, int64_t now_s) const {
  std::vector<Words> out;
  static const char* const kMakers[] = {"set", "hmset", "rpush", "sadd", "zadd", "xadd"};
  for (int type = kString; type < (with_streams ? kTypes : kStream); ++type) {
    for (const auto& [key, value] : values_[type]) {
      if (value.expire_s != 0 && value.expire_s <= now_s) continue;
      Words make{kMakers[type], key};
      if (type == kString) make.push_back(value.text);
      for (const std::string& element : value.list) make.push_back(element);
      for (const auto& [field, content] : value.fields) {
        if (type == kStream) {
          out.push_back({"xadd", key, field, content.substr(0, content.find('\0')),
                         content.substr(content.find('\0') + 1)});
          continue;
        }
        if (type == kZset) make.push_back(content);
        make.push_back(field);
        if (type == kHash) make.push_back(content);
      }
      if (type != kStream) out.push_back(std::move(make));
      if (value.expire_s != 0) out.push_back({"expireat", key, std::to_string(value.expire_s)});
    }
  }
  return out;
}

}  // namespace sf::fake_pika
