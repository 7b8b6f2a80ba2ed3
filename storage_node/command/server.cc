// Commands about the server: INFO, CONFIG, COMMAND, flushing, stopping.
#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/command/arg_reader.h"
#include "storage_node/command/reply.h"
#include "storage_node/node.h"
#include "storage_node/server/client_session.h"
#include "storage_node/server/info_report.h"

namespace sf {

namespace {

void ok(CommandContext& ctx) {
  resp::status(ctx.out, "OK");
}

void unknown_subcommand(CommandContext& ctx) {
  reply_error(ctx.out, cat("ERR unknown subcommand or wrong number of arguments for '",
                           printable(ctx.argv[1]), "'. Try ", ctx.spec.name, " HELP."));
}

void cmd_info(CommandContext& ctx) {
  const std::vector<std::string_view> sections(ctx.argv.begin() + 1, ctx.argv.end());
  resp::bulk(ctx.out, info_report(ctx.node, sections));
}

void cmd_dbsize(CommandContext& ctx) {
  resp::integer(ctx.out, ctx.engine.key_count(ctx.db));
}

void cmd_time(CommandContext& ctx) {
  const int64_t now_ms = ctx.node.clock().wall_ms();
  resp::array(ctx.out, 2);
  resp::bulk_int(ctx.out, now_ms / 1000);
  resp::bulk_int(ctx.out, now_ms % 1000 * 1000);
}

// ---- CONFIG

void config_get(CommandContext& ctx, ArgReader& args) {
  std::vector<std::pair<std::string, std::string>> found;
  while (!args.done()) {
    for (auto& pair : ctx.node.config().matching(args.next())) {
      if (std::find(found.begin(), found.end(), pair) == found.end()) {
        found.push_back(std::move(pair));
      }
    }
  }
  resp::array(ctx.out, found.size() * 2);
  for (const auto& [name, value] : found) {
    resp::bulk(ctx.out, name);
    resp::bulk(ctx.out, value);
  }
}

void config_set(CommandContext& ctx, ArgReader& args) {
  if (args.left() % 2 != 0) {
    return reply_error(ctx.out, "ERR wrong number of arguments for 'config|set' command");
  }
  while (!args.done()) {
    const std::string_view name = args.next();
    const Status set = ctx.node.config().set(name, args.next());
    if (!set) return reply_error(ctx.out, set);
  }
  ok(ctx);
}

void cmd_config(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  if (args.keyword("GET", 1)) return config_get(ctx, args);
  if (args.keyword("SET", 2)) return config_set(ctx, args);
  if (ctx.argv.size() == 2 && args.keyword("REWRITE")) {
    const Status done = ctx.node.config().rewrite();
    return done ? ok(ctx) : reply_error(ctx.out, done);
  }
  if (ctx.argv.size() == 2 && args.keyword("RESETSTAT")) {
    ctx.node.reset_stats();
    return ok(ctx);
  }
  unknown_subcommand(ctx);
}

// ---- COMMAND

void append_command(std::string& out, const CommandSpec& spec) {
  std::vector<std::string_view> flags;
  if (spec.is(kCmdWrite)) flags.push_back("write");
  if (spec.is(kCmdRead)) flags.push_back("readonly");
  if (spec.is(kCmdAdmin)) flags.push_back("admin");
  if (spec.is(kCmdNoAuth)) flags.push_back("no_auth");
  if (spec.is(kCmdBlocking)) flags.push_back("blocking");
  if (spec.is(kCmdDenyOom)) flags.push_back("denyoom");
  if (spec.is(kCmdFast)) flags.push_back("fast");
  if (spec.is(kCmdMovableKeys)) flags.push_back("movablekeys");
  resp::array(out, 6);
  resp::bulk(out, to_lower(spec.name));
  resp::integer(out, spec.arity);
  resp::array(out, flags.size());
  for (const std::string_view flag : flags) resp::status(out, flag);
  resp::integer(out, spec.first_key);
  resp::integer(out, spec.last_key);
  resp::integer(out, spec.key_step);
}

void command_info(CommandContext& ctx, std::span<const std::string_view> names) {
  resp::array(ctx.out, names.size());
  for (const std::string_view name : names) {
    const CommandSpec* spec = find_command(name);
    if (spec != nullptr && ctx.node.registry().find(*spec) != nullptr) {
      append_command(ctx.out, *spec);
    } else {
      resp::nil_array(ctx.out);
    }
  }
}

void command_docs(CommandContext& ctx, std::span<const std::string_view> names) {
  std::vector<std::string_view> known;
  for (const std::string_view name : names) {
    if (find_command(name) != nullptr) known.push_back(name);
  }
  resp::array(ctx.out, known.size() * 2);
  for (const std::string_view name : known) {
    resp::bulk(ctx.out, to_lower(name));
    resp::array(ctx.out, 2);
    resp::bulk(ctx.out, "summary");
    resp::bulk(ctx.out, "As in Redis 7.0 or Pika.");
  }
}

void command_getkeys(CommandContext& ctx, std::span<const std::string_view> argv) {
  const CommandSpec* spec = find_command(argv[0]);
  if (spec == nullptr || !spec->arity_ok(argv.size())) {
    return reply_error(ctx.out, "ERR Invalid command specified");
  }
  std::vector<int> positions;
  if (!key_positions(*spec, argv, &positions) || positions.empty()) {
    return reply_error(ctx.out, "ERR The command has no key arguments");
  }
  resp::array(ctx.out, positions.size());
  for (const int i : positions) resp::bulk(ctx.out, argv[static_cast<size_t>(i)]);
}

void cmd_command(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::vector<std::string_view> bound = ctx.node.registry().bound();
  if (args.done()) return command_info(ctx, bound);
  if (args.keyword("COUNT")) return resp::integer(ctx.out, static_cast<int64_t>(bound.size()));
  if (args.keyword("INFO"))
    return args.done() ? command_info(ctx, bound) : command_info(ctx, args.rest());
  if (args.keyword("DOCS"))
    return args.done() ? command_docs(ctx, bound) : command_docs(ctx, args.rest());
  if (args.keyword("GETKEYS", 1)) return command_getkeys(ctx, args.rest());
  if (args.keyword("LIST")) {
    resp::array(ctx.out, bound.size());
    for (const std::string_view name : bound) resp::bulk(ctx.out, to_lower(name));
    return;
  }
  unknown_subcommand(ctx);
}

// ---- flushing and stopping

// One batch: all of it, or nothing. A slot that is not this node's own to write refuses it.
void flush(CommandContext& ctx, int first_db, int last_db) {
  ArgReader args(ctx.argv);
  if (!args.keyword("SYNC")) args.keyword("ASYNC");
  if (!args.finish()) return reply_error(ctx.out, args.error());
  for (int slot = 0; slot < kSlotCount; ++slot) {
    if (ctx.engine.slot_flags(slot) == 0) continue;
    const std::string refusal = ctx.engine.write_refusal(slot);
    if (!refusal.empty()) return reply_error(ctx.out, refusal);
  }
  WriteTxn txn;
  for (int db = first_db; db <= last_db; ++db) {
    if (ctx.engine.key_count(db) == 0) continue;
    for (int slot = 0; slot < kSlotCount; ++slot) {
      if (ctx.engine.key_count(db, slot) == 0) continue;
      const std::string begin = slot_prefix(db, slot);
      const std::string end = prefix_end(begin);
      for (const Cf cf : {Cf::kMeta, Cf::kData, Cf::kScore}) txn.erase_range(cf, begin, end);
      txn.count_slot_cleared(db, slot);
    }
  }
  const Result<uint64_t> done = ctx.engine.commit(std::move(txn));
  if (!done) return reply_error(ctx.out, done.status());
  ok(ctx);
}

void cmd_flushdb(CommandContext& ctx) {
  flush(ctx, ctx.db, ctx.db);
}

void cmd_flushall(CommandContext& ctx) {
  flush(ctx, 0, kDbCount - 1);
}

void cmd_shutdown(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  while (!args.done()) {
    if (args.keyword("NOSAVE") || args.keyword("SAVE") || args.keyword("NOW") ||
        args.keyword("FORCE")) {
      continue;
    }
    return reply_error(ctx.out, kSyntaxError);
  }
  ctx.node.request_stop();  // the closing connection is the answer
  ctx.session->close_after_reply();
}

}  // namespace

void register_server(CommandRegistry& registry) {
  registry.bind("INFO", cmd_info);
  registry.bind("CONFIG", cmd_config);
  registry.bind("COMMAND", cmd_command);
  registry.bind("DBSIZE", cmd_dbsize);
  registry.bind("TIME", cmd_time);
  registry.bind("FLUSHDB", cmd_flushdb);
  registry.bind("FLUSHALL", cmd_flushall);
  registry.bind("SHUTDOWN", cmd_shutdown);
}

}  // namespace sf
