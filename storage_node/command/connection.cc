// Commands about the connection itself.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/command/arg_reader.h"
#include "storage_node/command/reply.h"
#include "storage_node/node.h"
#include "storage_node/server/client_session.h"

namespace sf {

namespace {

void ok(CommandContext& ctx) {
  resp::status(ctx.out, "OK");
}

void wrong_arity(CommandContext& ctx) {
  reply_error(ctx.out,
              cat("ERR wrong number of arguments for '", to_lower(ctx.spec.name), "' command"));
}

void cmd_ping(CommandContext& ctx) {
  if (ctx.argv.size() > 2) return wrong_arity(ctx);
  if (ctx.session != nullptr && ctx.session->subscribed()) {
    resp::array(ctx.out, 2);
    resp::bulk(ctx.out, "pong");
    return resp::bulk(ctx.out, ctx.argv.size() == 2 ? ctx.argv[1] : "");
  }
  if (ctx.argv.size() == 2) return resp::bulk(ctx.out, ctx.argv[1]);
  resp::status(ctx.out, "PONG");
}

void cmd_echo(CommandContext& ctx) {
  resp::bulk(ctx.out, ctx.argv[1]);
}

void cmd_select(CommandContext& ctx) {
  const auto db = parse_int64(ctx.argv[1]);
  if (!db) return reply_error(ctx.out, "ERR invalid DB index");
  if (*db < 0 || *db >= ctx.node.config().integer("databases")) {
    return reply_error(ctx.out, "ERR DB index is out of range");
  }
  ctx.session->set_db(static_cast<int>(*db));
  ok(ctx);
}

// Compares in a time that says nothing about where they differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = static_cast<unsigned>(a.size() ^ b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()]);
  }
  return difference == 0;
}

constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

bool log_in(CommandContext& ctx, std::string_view user, std::string_view password) {
  const std::string wanted = ctx.node.config().text("requirepass");
  const bool right = user == "default" && (wanted.empty() || same_secret(password, wanted));
  if (right) {
    ctx.session->set_authenticated(true);
  } else {
    ctx.node.log().warning(cat("a wrong password came from ", ctx.session->peer()));
    reply_error(ctx.out, kWrongPassword);
  }
  return right;
}

void cmd_auth(CommandContext& ctx) {
  if (ctx.argv.size() > 3) return reply_error(ctx.out, kSyntaxError);
  if (ctx.argv.size() == 2 && ctx.node.config().text("requirepass").empty()) {
    return reply_error(ctx.out,
                       "ERR AUTH <password> called without any password configured for the default "
                       "user. Are you sure your configuration is correct?");
  }
  const std::string_view user = ctx.argv.size() == 3 ? ctx.argv[1] : "default";
  if (log_in(ctx, user, ctx.argv.back())) ok(ctx);
}

bool valid_name(std::string_view name) {
  for (const char c : name) {
    if (c < '!' || c > '~') return false;
  }
  return true;
}

constexpr std::string_view kBadName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

void cmd_hello(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  if (!args.done()) {
    const int64_t version = args.next_int("ERR Protocol version is not an integer or out of range");
    if (args.ok() && version != 2) args.fail("NOPROTO unsupported protocol version");
  }
  std::string name;
  while (args.ok() && !args.done()) {
    if (args.keyword("AUTH", 2)) {
      const std::string_view user = args.next();
      if (!log_in(ctx, user, args.next())) return;
    } else if (args.keyword("SETNAME", 1)) {
      name = args.next();
      if (!valid_name(name)) args.fail(kBadName);
    } else {
      args.fail(kSyntaxError);
    }
  }
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (!ctx.session->authenticated()) {
    return reply_error(
        ctx.out,
        "NOAUTH HELLO must be called with the client already authenticated, otherwise "
        "the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the "
        "client and select the RESP protocol version at the same time");
  }
  if (!name.empty()) ctx.session->set_name(std::move(name));
  resp::array(ctx.out, 14);
  resp::bulk(ctx.out, "server");
  resp::bulk(ctx.out, "redis");
  resp::bulk(ctx.out, "version");
  resp::bulk(ctx.out, "7.0.15");
  resp::bulk(ctx.out, "proto");
  resp::integer(ctx.out, 2);
  resp::bulk(ctx.out, "id");
  resp::integer(ctx.out, static_cast<int64_t>(ctx.session->id()));
  resp::bulk(ctx.out, "mode");
  resp::bulk(ctx.out, "standalone");
  resp::bulk(ctx.out, "role");
  resp::bulk(ctx.out, "master");
  resp::bulk(ctx.out, "modules");
  resp::array(ctx.out, 0);
}

void cmd_quit(CommandContext& ctx) {
  ctx.session->close_after_reply();
  ok(ctx);
}

void cmd_reset(CommandContext& ctx) {
  ctx.session->drop_multi();
  ctx.session->drop_subscriber();
  ctx.session->set_db(0);
  ctx.session->set_name("");
  ctx.session->set_verify_reads(false);
  ctx.session->set_reply_mode(ClientSession::ReplyMode::kOn);
  ctx.session->set_authenticated(ctx.node.config().text("requirepass").empty());
  resp::status(ctx.out, "RESET");
}

// ---- CLIENT

// Which sessions CLIENT LIST and KILL mean.
struct ClientFilter {
  std::vector<uint64_t> ids;
  std::string addr;
  std::string laddr;
  std::string type;
  bool skip_me = true;
  uint64_t me = 0;

  bool matches(const ClientSession& session) const {
    if (!ids.empty() && std::find(ids.begin(), ids.end(), session.id()) == ids.end()) return false;
    if (!addr.empty() && session.peer() != addr) return false;
    if (!laddr.empty() && session.local() != laddr) return false;
    // Replicas' connections have left the sessions.
    if (!type.empty() && type != (session.subscribed() ? "pubsub" : "normal")) return false;
    return !(skip_me && session.id() == me);
  }
};

bool read_type(ArgReader& args, ClientFilter* filter) {
  filter->type = to_lower(args.next());
  if (filter->type == "normal" || filter->type == "master" || filter->type == "replica" ||
      filter->type == "slave" || filter->type == "pubsub") {
    return true;
  }
  args.fail(cat("ERR Unknown client type '", filter->type, "'"));
  return false;
}

// Runs `visit` on the sessions of every loop, then answers with what `finish` makes of it. In EXEC,
// which cannot wait, only this loop's sessions are seen at once; the others follow without a
// report.
template <class Visit, class Finish>
void visit_all(CommandContext& ctx, Visit visit, Finish finish) {
  Node& node = ctx.node;
  Loop* home = &ctx.session->loop();
  if (!ctx.session->can_block()) {
    for (int i = 0; i < node.hub_count(); ++i) {
      if (&node.hub(i).loop() == home) {
        node.hub(i).for_each(visit);
      } else {
        node.hub(i).loop().post([&node, i, visit] { node.hub(i).for_each(visit); });
      }
    }
    ctx.out += finish();
    return;
  }
  const BlockedReply blocked = ctx.session->block();
  node.workers().broadcast([&node, visit](int i) { node.hub(i).for_each(visit); }, home,
                           [blocked, finish] { blocked.send(finish()); });
}

void client_list(CommandContext& ctx, ArgReader& args) {
  ClientFilter filter;
  filter.skip_me = false;
  while (args.ok() && !args.done()) {
    if (args.keyword("TYPE", 1)) {
      read_type(args, &filter);
    } else if (args.keyword("ID", 1)) {
      for (const std::string_view id : args.rest()) {
        const auto number = parse_int64(id);
        if (!number || *number <= 0) args.fail("ERR Invalid client ID");
        filter.ids.push_back(static_cast<uint64_t>(number.value_or(0)));
      }
    } else {
      args.fail(kSyntaxError);
    }
  }
  if (!args.finish()) return reply_error(ctx.out, args.error());
  struct Gathered {
    std::mutex mutex;
    std::map<uint64_t, std::string> lines;
  };
  auto gathered = std::make_shared<Gathered>();
  visit_all(
      ctx,
      [gathered, filter](ClientSession& session) {
        if (!filter.matches(session)) return;
        std::string line = session.describe(session.loop().now_us());
        const std::lock_guard lock(gathered->mutex);
        gathered->lines[session.id()] = std::move(line);
      },
      [gathered] {
        std::string text;
        const std::lock_guard lock(gathered->mutex);
        for (const auto& [id, line] : gathered->lines) text += line + "\n";
        std::string reply;
        resp::bulk(reply, text);
        return reply;
      });
}

void read_kill_filter(CommandContext& ctx, ArgReader& args, ClientFilter* filter) {
  while (args.ok() && !args.done()) {
    if (args.keyword("ID", 1)) {
      const int64_t id = args.next_int("ERR client-id should be greater than 0");
      if (args.ok() && id <= 0) args.fail("ERR client-id should be greater than 0");
      filter->ids.push_back(static_cast<uint64_t>(id));
    } else if (args.keyword("ADDR", 1)) {
      filter->addr = args.next();
    } else if (args.keyword("LADDR", 1)) {
      filter->laddr = args.next();
    } else if (args.keyword("TYPE", 1)) {
      read_type(args, filter);
    } else if (args.keyword("USER", 1)) {
      args.next();
    } else if (args.keyword("SKIPME", 1)) {
      const std::string word = to_lower(args.next());
      if (word != "yes" && word != "no") args.fail(kSyntaxError);
      filter->skip_me = word == "yes";
    } else {
      args.fail(kSyntaxError);
    }
  }
  filter->me = ctx.session->id();
}

void client_kill(CommandContext& ctx, ArgReader& args) {
  ClientFilter filter;
  const bool old_form = args.left() == 1;  // CLIENT KILL addr: +OK or an error
  if (old_form) {
    filter.addr = args.next();
    filter.skip_me = false;
  } else {
    read_kill_filter(ctx, args, &filter);
  }
  if (!args.finish()) return reply_error(ctx.out, args.error());
  auto killed = std::make_shared<std::atomic<int64_t>>(0);
  visit_all(
      ctx,
      [killed, filter](ClientSession& session) {
        if (!filter.matches(session)) return;
        ++*killed;
        session.kill();
      },
      [killed, old_form] {
        std::string reply;
        if (!old_form) {
          resp::integer(reply, killed->load());
        } else if (killed->load() > 0) {
          resp::status(reply, "OK");
        } else {
          resp::error(reply, "ERR No such client");
        }
        return reply;
      });
}

void client_reply(CommandContext& ctx, ArgReader& args) {
  const std::string mode = to_lower(args.next());
  if (!args.finish()) return reply_error(ctx.out, args.error());
  if (mode == "on") {
    ctx.session->set_reply_mode(ClientSession::ReplyMode::kOn);
    return ok(ctx);
  }
  if (mode == "off") return ctx.session->set_reply_mode(ClientSession::ReplyMode::kOff);
  if (mode == "skip") return ctx.session->set_reply_mode(ClientSession::ReplyMode::kSkipNext);
  reply_error(ctx.out, kSyntaxError);
}

void client_setname(CommandContext& ctx, ArgReader& args) {
  const std::string_view name = args.next();
  if (args.ok() && !valid_name(name)) args.fail(kBadName);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  ctx.session->set_name(std::string(name));
  ok(ctx);
}

void client_on_off(CommandContext& ctx, ArgReader& args) {
  if (!args.keyword("ON") && !args.keyword("OFF")) args.fail(kSyntaxError);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  ok(ctx);
}

void cmd_client(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  if (args.keyword("LIST")) return client_list(ctx, args);
  if (args.keyword("KILL", 1)) return client_kill(ctx, args);
  if (args.keyword("REPLY", 1)) return client_reply(ctx, args);
  if (args.keyword("SETNAME", 1)) return client_setname(ctx, args);
  if (args.keyword("NO-EVICT", 1) || args.keyword("NO-TOUCH", 1)) return client_on_off(ctx, args);
  if (args.keyword("SETINFO", 2)) return ok(ctx);
  if (ctx.argv.size() == 2 && args.keyword("ID")) {
    return resp::integer(ctx.out, static_cast<int64_t>(ctx.session->id()));
  }
  if (ctx.argv.size() == 2 && args.keyword("GETNAME")) {
    return resp::bulk(ctx.out, ctx.session->name());
  }
  if (ctx.argv.size() == 2 && args.keyword("INFO")) {
    return resp::bulk(ctx.out, ctx.session->describe(ctx.session->loop().now_us()) + "\n");
  }
  reply_error(ctx.out, cat("ERR unknown subcommand or wrong number of arguments for '",
                           printable(ctx.argv[1]), "'. Try CLIENT HELP."));
}

}  // namespace

void register_connection(CommandRegistry& registry) {
  registry.bind("PING", cmd_ping);
  registry.bind("ECHO", cmd_echo);
  registry.bind("SELECT", cmd_select);
  registry.bind("AUTH", cmd_auth);
  registry.bind("HELLO", cmd_hello);
  registry.bind("QUIT", cmd_quit);
  registry.bind("RESET", cmd_reset);
  registry.bind("CLIENT", cmd_client);
}

}  // namespace sf
