// MULTI, EXEC, DISCARD, WATCH, UNWATCH. Queueing is the dispatcher's (server/dispatcher.h).
#include "common/resp/encoder.h"
#include "storage_node/command/reply.h"
#include "storage_node/node.h"
#include "storage_node/server/client_session.h"
#include "storage_node/server/dispatcher.h"
#include "storage_node/server/multi_state.h"
#include "storage_node/types/meta.h"

namespace sf {

namespace {

bool in_multi(const CommandContext& ctx) {
  return ctx.session->multi() != nullptr && ctx.session->multi()->open;
}

void cmd_multi(CommandContext& ctx) {
  if (in_multi(ctx)) return reply_error(ctx.out, "ERR MULTI calls can not be nested");
  ctx.session->make_multi().open = true;
  resp::status(ctx.out, "OK");
}

void cmd_discard(CommandContext& ctx) {
  if (!in_multi(ctx)) return reply_error(ctx.out, "ERR DISCARD without MULTI");
  ctx.session->drop_multi();
  resp::status(ctx.out, "OK");
}

void cmd_exec(CommandContext& ctx) {
  if (!in_multi(ctx)) return reply_error(ctx.out, "ERR EXEC without MULTI");
  if (ctx.session->multi()->broken) {
    reply_error(ctx.out, "EXECABORT Transaction discarded because of previous errors.");
  } else {
    ctx.node.dispatcher().run_queued(*ctx.session, ctx.out);
  }
  ctx.session->drop_multi();
}

void cmd_watch(CommandContext& ctx) {
  if (in_multi(ctx)) return reply_error(ctx.out, "ERR WATCH inside MULTI is not allowed");
  MultiState& multi = ctx.session->make_multi();
  for (const std::string_view key : ctx.argv.subspan(1)) {
    // Watched before it is looked at: a write in between counts as a change.
    multi.watches.push_back(ctx.node.watches().watch(ctx.db, key));
    const Result<Loaded> loaded = load_meta(ctx.engine, ctx.db, key);
    if (!loaded) return reply_error(ctx.out, loaded.status());
    multi.watches.back().existed = static_cast<bool>(*loaded);
  }
  resp::status(ctx.out, "OK");
}

void cmd_unwatch(CommandContext& ctx) {
  if (ctx.session->multi() != nullptr) ctx.session->multi()->watches.clear();
  resp::status(ctx.out, "OK");
}

}  // namespace

void register_transactions(CommandRegistry& registry) {
  registry.bind("MULTI", cmd_multi);
  registry.bind("EXEC", cmd_exec);
  registry.bind("DISCARD", cmd_discard);
  registry.bind("WATCH", cmd_watch);
  registry.bind("UNWATCH", cmd_unwatch);
}

}  // namespace sf
