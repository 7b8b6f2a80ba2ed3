// SUBSCRIBE, PUBLISH and their kin (server/pubsub.h).
#include "storage_node/server/pubsub.h"

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/command/arg_reader.h"
#include "storage_node/command/command.h"
#include "storage_node/command/reply.h"
#include "storage_node/node.h"
#include "storage_node/server/client_session.h"

namespace sf {
namespace {

using Kind = PubSub::Kind;

size_t subscriptions(const CommandContext& ctx) {
  const PubSub::Subscriber* subscriber = ctx.session->subscriber();
  return subscriber == nullptr ? 0 : subscriber->count();
}

void confirm(CommandContext& ctx, std::string_view verb, std::string_view name) {
  resp::array(ctx.out, 3);
  resp::bulk(ctx.out, verb);
  resp::bulk(ctx.out, name);
  resp::integer(ctx.out, static_cast<int64_t>(subscriptions(ctx)));
}

void subscribe(CommandContext& ctx, Kind kind, std::string_view verb) {
  if (!ctx.session->can_block()) {
    return reply_error(ctx.out, cat("ERR ", ctx.spec.name, " is not allowed in MULTI"));
  }
  const auto names = ctx.argv.subspan(1);
  if (subscriptions(ctx) + names.size() > PubSub::kPerClient) {
    return reply_error(ctx.out, cat("ERR a client may have ", PubSub::kPerClient,
                                    " subscriptions; open another connection"));
  }
  PubSub::Subscriber& subscriber = ctx.session->make_subscriber(ctx.node.pubsub());
  for (const std::string_view name : names) {
    subscriber.add(kind, name);
    confirm(ctx, verb, name);
  }
}

void unsubscribe(CommandContext& ctx, Kind kind, std::string_view verb) {
  PubSub::Subscriber* subscriber = ctx.session->subscriber();
  std::vector<std::string> names(ctx.argv.begin() + 1, ctx.argv.end());
  if (names.empty() && subscriber != nullptr) {
    names.assign(subscriber->names(kind).begin(), subscriber->names(kind).end());
  }
  if (names.empty()) {
    resp::array(ctx.out, 3);
    resp::bulk(ctx.out, verb);
    resp::nil(ctx.out);
    return resp::integer(ctx.out, static_cast<int64_t>(subscriptions(ctx)));
  }
  for (const std::string& name : names) {
    if (subscriber != nullptr) subscriber->remove(kind, name);
    confirm(ctx, verb, name);
  }
}

void cmd_subscribe(CommandContext& ctx) {
  subscribe(ctx, Kind::kChannel, "subscribe");
}

void cmd_psubscribe(CommandContext& ctx) {
  subscribe(ctx, Kind::kPattern, "psubscribe");
}

void cmd_unsubscribe(CommandContext& ctx) {
  unsubscribe(ctx, Kind::kChannel, "unsubscribe");
}

void cmd_punsubscribe(CommandContext& ctx) {
  unsubscribe(ctx, Kind::kPattern, "punsubscribe");
}

void cmd_publish(CommandContext& ctx) {
  resp::integer(ctx.out, ctx.node.pubsub().publish(ctx.argv[1], ctx.argv[2]));
}

void cmd_pubsub(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const PubSub& pubsub = ctx.node.pubsub();
  if (args.keyword("CHANNELS") && args.left() <= 1) {
    const auto names = pubsub.channels(args.done() ? "*" : args.next());
    resp::array(ctx.out, names.size());
    for (const std::string& name : names) resp::bulk(ctx.out, name);
    return;
  }
  if (args.keyword("NUMSUB")) {
    const auto names = args.rest();
    resp::array(ctx.out, names.size() * 2);
    for (const std::string_view name : names) {
      resp::bulk(ctx.out, name);
      resp::integer(ctx.out, pubsub.subscribers(name));
    }
    return;
  }
  if (args.keyword("NUMPAT") && args.done()) return resp::integer(ctx.out, pubsub.patterns());
  reply_error(ctx.out, cat("ERR unknown subcommand or wrong number of arguments for '",
                           printable(ctx.argv[1]), "'. Try PUBSUB HELP."));
}

}  // namespace

void register_pubsub(CommandRegistry& registry) {
  registry.bind("SUBSCRIBE", cmd_subscribe);
  registry.bind("PSUBSCRIBE", cmd_psubscribe);
  registry.bind("UNSUBSCRIBE", cmd_unsubscribe);
  registry.bind("PUNSUBSCRIBE", cmd_punsubscribe);
  registry.bind("PUBLISH", cmd_publish);
  registry.bind("PUBSUB", cmd_pubsub);
}

}  // namespace sf
