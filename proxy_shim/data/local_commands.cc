#include "proxy_shim/data/local_commands.h"

#include <algorithm>
#include <array>

#include "common/base/strings.h"
#include "common/resp/command_catalog.h"
#include "common/resp/encoder.h"
#include "common/slots/slot_hash.h"
#include "proxy_shim/data/info_text.h"

namespace sf {

namespace {

constexpr int kDatabases = 16;
constexpr int kMultiMax = 64;  // commands queued in one MULTI

std::string_view arg(const LocalCall& call, size_t i) {
  return i < call.argv.size() ? call.argv[i] : std::string_view();
}

void bad_subcommand(LocalCall& call) {
  resp::error(call.out, cat("ERR '", printable(arg(call, 1)), "' of ", printable(call.argv[0]),
                            " is not answered by slotferry-shim; ask the server behind it"));
}

void ping(LocalCall& call) {
  call.session.carries_data = true;
  if (call.argv.size() > 2) return wrong_arity(call.out, "ping");
  call.argv.size() == 2 ? resp::bulk(call.out, call.argv[1]) : resp::status(call.out, "PONG");
}

void echo(LocalCall& call) {
  resp::bulk(call.out, call.argv[1]);
}

void select(LocalCall& call) {
  const auto db = parse_int64(call.argv[1]);
  if (!db) return resp::error(call.out, "ERR value is not an integer or out of range");
  if (*db < 0 || *db >= kDatabases) return resp::error(call.out, "ERR DB index is out of range");
  call.session.db = static_cast<int>(*db);
  resp::status(call.out, "OK");
}

// True if the words after AUTH are right; appends the error otherwise.
bool check_password(LocalCall& call, std::string_view user, std::string_view password) {
  const std::string& wanted = call.server.options.password;
  if (wanted.empty()) {
    resp::error(call.out,
                "ERR AUTH <password> called without any password configured for the default user. "
                "Are you sure your configuration is correct?");
    return false;
  }
  if (user != "default" || password != wanted) {
    resp::error(call.out, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
  }
  call.session.is_authenticated = true;
  return true;
}

void auth(LocalCall& call) {
  if (call.argv.size() > 3) return resp::error(call.out, "ERR syntax error");
  const bool has_user = call.argv.size() == 3;
  if (check_password(call, has_user ? call.argv[1] : "default", call.argv.back())) {
    resp::status(call.out, "OK");
  }
}

void quit(LocalCall& call) {
  resp::status(call.out, "OK");
  call.session.wants_close = true;
}

void hello_fields(LocalCall& call) {
  resp::array(call.out, 14);
  const auto field = [&](std::string_view name, std::string_view value) {
    resp::bulk(call.out, name);
    resp::bulk(call.out, value);
  };
  field("server", "redis");
  field("version", "7.0.15");
  resp::bulk(call.out, "proto");
  resp::integer(call.out, 2);
  resp::bulk(call.out, "id");
  resp::integer(call.out, static_cast<int64_t>(call.session.id));
  field("mode", "standalone");
  field("role", "master");
  resp::bulk(call.out, "modules");
  resp::array(call.out, 0);
}

void hello(LocalCall& call) {
  size_t at = 1;
  if (call.argv.size() > 1) {
    const auto version = parse_int64(call.argv[1]);
    if (!version) {
      return resp::error(call.out, "ERR Protocol version is not an integer or out of range");
    }
    if (*version != 2) return resp::error(call.out, "NOPROTO unsupported protocol version");
    at = 2;
  }
  std::string name = call.session.name;
  for (; at < call.argv.size(); ++at) {
    if (equals_ignore_case(call.argv[at], "AUTH") && at + 2 < call.argv.size()) {
      if (!check_password(call, call.argv[at + 1], call.argv[at + 2])) return;
      at += 2;
    } else if (equals_ignore_case(call.argv[at], "SETNAME") && at + 1 < call.argv.size()) {
      name = call.argv[++at];
    } else {
      return resp::error(call.out,
                         cat("ERR Syntax error in HELLO option '", printable(call.argv[at]), "'"));
    }
  }
  if (!call.session.is_authenticated) return no_auth(call.out);
  call.session.name = name;
  hello_fields(call);
}

void client(LocalCall& call) {
  const std::string sub = to_upper(arg(call, 1));
  if (sub == "SETNAME" && call.argv.size() == 3) {
    call.session.name = call.argv[2];
    return resp::status(call.out, "OK");
  }
  if (sub == "GETNAME") {
    return call.session.name.empty() ? resp::nil(call.out)
                                     : resp::bulk(call.out, call.session.name);
  }
  if (sub == "ID") return resp::integer(call.out, static_cast<int64_t>(call.session.id));
  // KILL is part of the dashboard's promote (T19). Nobody is cut off: the clients are proxies, and
  // the owner of their slots did not change by it.
  if (sub == "KILL" || sub == "SETINFO" || sub == "NO-EVICT" || sub == "NO-TOUCH") {
    return resp::status(call.out, "OK");
  }
  if (sub == "LIST" || sub == "INFO") {
    return resp::bulk(call.out, cat("id=", call.session.id, " addr=", call.session.peer,
                                    " name=", call.session.name, " db=", call.session.db, "\n"));
  }
  bad_subcommand(call);
}

void command_entry(std::string& out, const CommandSpec& spec) {
  resp::array(out, 6);
  resp::bulk(out, to_lower(spec.name));
  resp::integer(out, spec.arity);
  std::array<std::string_view, 4> flags{};
  size_t count = 0;
  if (spec.is(kCmdWrite)) flags[count++] = "write";
  if (spec.is(kCmdRead)) flags[count++] = "readonly";
  if (spec.is(kCmdAdmin)) flags[count++] = "admin";
  if (spec.is(kCmdFast)) flags[count++] = "fast";
  resp::array(out, count);
  for (size_t i = 0; i < count; ++i) resp::status(out, flags[i]);
  resp::integer(out, spec.first_key);
  resp::integer(out, spec.last_key);
  resp::integer(out, spec.key_step);
}

void command(LocalCall& call) {
  const std::string sub = to_upper(arg(call, 1));
  if (sub == "COUNT") return resp::integer(call.out, static_cast<int64_t>(catalog_size()));
  if (sub == "DOCS") return resp::array(call.out, 0);
  if (sub == "INFO" && call.argv.size() > 2) {
    resp::array(call.out, call.argv.size() - 2);
    for (const auto name : call.argv.subspan(2)) {
      const CommandSpec* spec = find_command(name);
      spec == nullptr ? resp::nil_array(call.out) : command_entry(call.out, *spec);
    }
    return;
  }
  if (!sub.empty() && sub != "INFO") return bad_subcommand(call);
  resp::array(call.out, catalog_size());
  for (const CommandSpec& spec : all_commands()) command_entry(call.out, spec);
}

// Pika's "INFO keyspace 1 [db]" begins to count, "0" tells what was counted: here the servers' own
// numbers are told (contracts/pika, replies/02).
bool is_keyspace_count(const LocalCall& call) {
  return call.argv.size() <= 4 && equals_ignore_case(arg(call, 1), "keyspace") &&
         (arg(call, 2) == "0" || arg(call, 2) == "1");
}

void info(LocalCall& call) {
  if (call.argv.size() > 2 && !is_keyspace_count(call)) {
    return resp::error(call.out, "ERR syntax error");
  }
  resp::bulk(call.out, info_text(call.server, arg(call, 1)));
}

std::vector<std::pair<std::string_view, std::string>> settings(const ServerView& server) {
  return {
      {"maxmemory", std::to_string(server.facts.maxmemory)},
      {"databases", std::to_string(kDatabases)},
      {"maxclients", std::to_string(server.options.clients_max)},
      {"timeout", "0"},
      {"port", std::to_string(server.port)},
      {"thread-num", std::to_string(server.options.threads)},
      {"run-id", server.options.run_id},
      {"instance-mode", "classic"},
      {"default-slot-num", std::to_string(kSlotCount)},
      {"daemonize", "no"},
      {"slaveof", ""},
      {"masterauth", ""},
      {"slave-read-only", "yes"},
      {"save", ""},
      {"appendonly", "no"},
      {"slotmigrate", "no"},
  };
}

void config_get(LocalCall& call) {
  std::vector<std::string> found;
  for (const auto& [name, value] : settings(call.server)) {
    for (const auto pattern : call.argv.subspan(2)) {
      if (!glob_match(to_lower(pattern), name)) continue;
      found.emplace_back(name);
      found.push_back(value);
      break;
    }
  }
  resp::array(call.out, found.size());
  for (const auto& word : found) resp::bulk(call.out, word);
}

void config(LocalCall& call) {
  const std::string sub = to_upper(arg(call, 1));
  if (sub == "GET" && call.argv.size() >= 3) return config_get(call);
  if (sub == "REWRITE" || sub == "RESETSTAT") return resp::status(call.out, "OK");
  // The password towards a master the shim never has (T19); any value, "" too.
  if (sub == "SET" && call.argv.size() == 4 && equals_ignore_case(call.argv[2], "masterauth")) {
    return resp::status(call.out, "OK");
  }
  bad_subcommand(call);
}

void slaveof(LocalCall& call) {
  if (call.argv.size() >= 3 && equals_ignore_case(call.argv[1], "NO") &&
      equals_ignore_case(call.argv[2], "ONE")) {
    return resp::status(call.out, "OK");
  }
  resp::error(call.out,
              "ERR slotferry-shim holds no data and follows no master; give this command to the "
              "servers behind it");
}

void role(LocalCall& call) {
  resp::array(call.out, 3);
  resp::bulk(call.out, "master");
  resp::integer(call.out, 0);
  resp::array(call.out, 0);
}

void time_now(LocalCall& call) {
  resp::array(call.out, 2);
  resp::bulk_int(call.out, call.server.wall_ms / 1000);
  resp::bulk_int(call.out, call.server.wall_ms % 1000 * 1000);
}

void dbsize(LocalCall& call) {
  int64_t sum = 0;
  for (const auto& [db, keys] : call.server.facts.keys_by_db) {
    if (db == call.session.db) sum += keys;
  }
  resp::integer(call.out, sum);
}

void slots_info(LocalCall& call) {
  int64_t first = 0;
  int64_t count = kSlotCount;
  if (call.argv.size() > 3) return wrong_arity(call.out, "slotsinfo");
  if (call.argv.size() > 1) {
    const auto start = parse_int64(call.argv[1]);
    if (!start || *start < 0 || *start >= kSlotCount) {
      return resp::error(call.out, cat("ERR invalid slot begin = ", printable(call.argv[1])));
    }
    first = *start;
  }
  if (call.argv.size() > 2) {
    const auto number = parse_int64(call.argv[2]);
    if (!number || *number < 0) {
      return resp::error(call.out, cat("ERR invalid slot count = ", printable(call.argv[2])));
    }
    count = *number;
  }
  std::vector<std::pair<int, int64_t>> found;
  for (const auto& entry : call.server.facts.keys_by_slot) {
    if (entry.first >= first && entry.first - first < count) found.push_back(entry);
  }
  resp::array(call.out, found.size());
  for (const auto& [slot, keys] : found) {
    resp::array(call.out, 2);
    resp::integer(call.out, slot);
    resp::integer(call.out, keys);
  }
}

void slots_hash_key(LocalCall& call) {
  resp::array(call.out, call.argv.size() - 1);
  for (const auto key : call.argv.subspan(1)) resp::integer(call.out, slot_of(key));
}

void multi(LocalCall& call) {
  if (call.session.in_multi) return resp::error(call.out, "ERR MULTI calls can not be nested");
  call.session.in_multi = true;
  call.session.multi_failed = false;
  call.session.multi_count = 0;
  call.session.multi_replies.clear();
  resp::status(call.out, "OK");
}

void end_multi(SessionState& session) {
  session.in_multi = false;
  session.multi_replies = std::string();
}

void exec(LocalCall& call) {
  SessionState& session = call.session;
  if (!session.in_multi) return resp::error(call.out, "ERR EXEC without MULTI");
  if (session.multi_failed || session.multi_count > kMultiMax) {
    resp::error(call.out, "EXECABORT Transaction discarded because of previous errors.");
  } else {
    resp::array(call.out, static_cast<size_t>(session.multi_count));
    call.out += session.multi_replies;
  }
  end_multi(session);
}

void discard(LocalCall& call) {
  if (!call.session.in_multi) return resp::error(call.out, "ERR DISCARD without MULTI");
  end_multi(call.session);
  resp::status(call.out, "OK");
}

constexpr std::array kLocal = {
    LocalEntry{"PING", ping},
    LocalEntry{"ECHO", echo},
    LocalEntry{"SELECT", select},
    LocalEntry{"AUTH", auth},
    LocalEntry{"QUIT", quit},
    LocalEntry{"HELLO", hello},
    LocalEntry{"CLIENT", client, true},
    LocalEntry{"COMMAND", command},
    LocalEntry{"INFO", info, true, true},
    LocalEntry{"CONFIG", config, true},
    LocalEntry{"SLAVEOF", slaveof, true},
    LocalEntry{"REPLICAOF", slaveof, true},
    LocalEntry{"ROLE", role},
    LocalEntry{"TIME", time_now},
    LocalEntry{"DBSIZE", dbsize},
    LocalEntry{"SLOTSINFO", slots_info},
    LocalEntry{"SLOTSHASHKEY", slots_hash_key},
    LocalEntry{"MULTI", multi},
    LocalEntry{"EXEC", exec},
    LocalEntry{"DISCARD", discard},
};

}  // namespace

const LocalEntry* find_local_command(std::string_view upper_case_name) {
  const auto* found = std::find_if(kLocal.begin(), kLocal.end(), [&](const LocalEntry& entry) {
    return entry.name == upper_case_name;
  });
  return found == kLocal.end() ? nullptr : found;
}

void no_auth(std::string& out) {
  resp::error(out, "NOAUTH Authentication required.");
}

void wrong_arity(std::string& out, std::string_view command) {
  resp::error(out, cat("ERR wrong number of arguments for '", to_lower(command), "' command"));
}

void unknown_command(std::string& out, std::span<const std::string_view> argv) {
  std::string text =
      cat("ERR unknown command '", printable(argv[0], 128), "', with args beginning with: ");
  for (size_t i = 1; i < argv.size() && text.size() < 128; ++i) {
    text += cat("'", printable(argv[i], 128), "' ");
  }
  resp::error(out, text);
}

}  // namespace sf
