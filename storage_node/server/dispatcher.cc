#include "storage_node/server/dispatcher.h"

#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/node.h"
#include "storage_node/server/multi_state.h"
#include "storage_node/server/session_hub.h"
#include "storage_node/types/meta.h"

namespace sf {

namespace {

constexpr size_t kQueuedBytesMax = 64UL << 20;
constexpr size_t kShownArgBytes = 128;

// Commands that act on the transaction itself are never queued.
bool steers_multi(const CommandSpec& spec) {
  return spec.name == "EXEC" || spec.name == "DISCARD" || spec.name == "MULTI" ||
         spec.name == "WATCH" || spec.name == "QUIT" || spec.name == "RESET";
}

bool for_subscribers(const CommandSpec& spec) {
  return (spec.is(kCmdPubSub) && spec.is(kCmdConnection)) || spec.name == "PING" ||
         spec.name == "QUIT" || spec.name == "RESET";
}

std::string unknown_command(std::span<const std::string_view> argv) {
  std::string shown;
  for (size_t i = 1; i < argv.size() && shown.size() < kShownArgBytes; ++i) {
    shown += cat("'", argv[i].substr(0, kShownArgBytes - shown.size()), "' ");
  }
  return cat("ERR unknown command '", argv[0].substr(0, kShownArgBytes),
             "', with args beginning with: ", shown);
}

// The keys of a command: one in place for most, a list for the others.
class KeyList {
 public:
  KeyList(const CommandSpec& spec, std::span<const std::string_view> argv) {
    if (spec.is(kCmdKeyless)) return;
    if (spec.first_key > 0 && spec.first_key == spec.last_key && !spec.is(kCmdMovableKeys)) {
      one_ = argv[static_cast<size_t>(spec.first_key)];
      view_ = {&one_, 1};
      return;
    }
    std::vector<int> positions;
    // Arguments that do not say where the keys are get their error from the handler.
    if (!key_positions(spec, argv, &positions)) return;
    many_.reserve(positions.size());
    for (const int i : positions) many_.push_back(argv[static_cast<size_t>(i)]);
    view_ = many_;
  }
  KeyList(const KeyList&) = delete;
  KeyList& operator=(const KeyList&) = delete;
  std::span<const std::string_view> view() const { return view_; }

 private:
  std::string_view one_;
  std::vector<std::string_view> many_;
  std::span<const std::string_view> view_;
};

std::vector<std::string_view> views(const std::vector<std::string>& argv) {
  return {argv.begin(), argv.end()};
}

}  // namespace

CommandRegistry::CommandRegistry() : handlers_(catalog_size(), nullptr) {}

void CommandRegistry::bind(std::string_view name, CommandHandler handler) {
  const CommandSpec* spec = find_command(name);
  SF_CHECK(spec != nullptr);
  SF_CHECK(handlers_[spec->index] == nullptr);
  handlers_[spec->index] = handler;
}

CommandHandler CommandRegistry::find(const CommandSpec& spec) const {
  return handlers_[spec.index];
}

std::vector<std::string_view> CommandRegistry::bound() const {
  std::vector<std::string_view> names;
  for (const CommandSpec& spec : all_commands()) {
    if (handlers_[spec.index] != nullptr) names.push_back(spec.name);
  }
  return names;
}

Dispatcher::Dispatcher(Engine& engine, Node& node, const CommandRegistry& registry,
                       WatchTable& watches)
    : engine_(engine), node_(node), registry_(registry), watches_(watches) {}

void Dispatcher::execute(ClientSession& session, std::span<const std::string_view> argv,
                         std::string& out) {
  const CommandSpec* spec = find_command(argv[0]);
  if (!admit(session, spec, argv, out)) {
    if (session.multi() != nullptr && session.multi()->open) session.multi()->broken = true;
    return;
  }
  session.note_command(spec->name);
  if (session.multi() != nullptr && session.multi()->open && !steers_multi(*spec)) {
    queue(session, argv, out);
    return;
  }
  run(session, *spec, argv, out, true);
}

bool Dispatcher::admit(ClientSession& session, const CommandSpec* spec,
                       std::span<const std::string_view> argv, std::string& out) {
  if (spec == nullptr) {
    resp::error(out, unknown_command(argv));
  } else if (!spec->arity_ok(argv.size())) {
    resp::error(out, cat("ERR wrong number of arguments for '", to_lower(spec->name), "' command"));
  } else if (!session.authenticated() && !spec->is(kCmdNoAuth)) {
    resp::error(out, "NOAUTH Authentication required.");
  } else if (session.subscribed() && !for_subscribers(*spec)) {
    resp::error(out, cat("ERR Can't execute '", to_lower(spec->name),
                         "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
                         "allowed in this context"));
  } else if (registry_.find(*spec) == nullptr) {
    resp::error(out, cat("ERR unknown command '", argv[0], "': this server does not have it"));
  } else {
    return true;
  }
  return false;
}

void Dispatcher::queue(ClientSession& session, std::span<const std::string_view> argv,
                       std::string& out) {
  MultiState& multi = *session.multi();
  for (const std::string_view arg : argv) multi.queued_bytes += arg.size() + 32;
  if (multi.queued_bytes > kQueuedBytesMax) {
    multi.broken = true;
    multi.queued.clear();
    resp::error(out, "ERR the transaction is longer than 64 MiB");
    return;
  }
  multi.queued.emplace_back(argv.begin(), argv.end());
  resp::status(out, "QUEUED");
}

bool Dispatcher::owner_allows(const ClientSession& session, const CommandSpec& spec,
                              std::span<const std::string_view> keys, std::string& out) const {
  for (const std::string_view key : keys) {
    const int slot = slot_of(key);
    const uint8_t flags = engine_.slot_flags(slot);
    if (flags == 0) continue;
    std::string refusal;
    if (spec.is(kCmdWrite)) {
      refusal = engine_.write_refusal(slot);
    } else if (!session.verify_reads()) {
      refusal = engine_.read_refusal(slot);
    }
    if (refusal.empty()) continue;
    resp::error(out, refusal);
    return false;
  }
  return true;
}

void Dispatcher::run(ClientSession& session, const CommandSpec& spec,
                     std::span<const std::string_view> argv, std::string& out, bool take_locks) {
  const KeyList keys(spec, argv);
  if (!owner_allows(session, spec, keys.view(), out)) return;
  const bool writes = spec.is(kCmdWrite);
  if (writes && node_.replication() != nullptr && !node_.replication()->writes_allowed()) {
    return resp::error(out, "NOREPLICAS Not enough good replicas to write.");
  }
  // Readers see one moment by a snapshot where they need it; only writers exclude one another.
  KeyLocks::Held held;
  if (writes && take_locks) {
    held = keys.view().empty() ? engine_.key_locks().lock_all()
                               : engine_.key_locks().lock(session.db(), keys.view());
  }
  CommandContext ctx{engine_, node_, &session, session.db(), spec, argv, out};
  registry_.find(spec)(ctx);
  if (!writes) return;
  if (keys.view().empty()) watches_.touch_all();
  for (const std::string_view key : keys.view()) watches_.touch(session.db(), key);
  session.sync_before_replies();
  session.note_write(engine_.last_seq());
}

// A watched key that was there and has expired since counts as changed.
bool Dispatcher::is_stale(const WatchTable::Watch& watch) {
  if (watch.touched()) return true;
  if (!watch.existed) return false;
  const Result<Loaded> loaded = load_meta(engine_, watch.db(), watch.key());
  return !loaded || !*loaded;
}

// The locks of everything the transaction may write are taken first; a write without keys
// (FLUSHALL) needs them all. SELECT inside a transaction changes the db of what follows.
void Dispatcher::run_queued(ClientSession& session, std::string& out) {
  const std::vector<std::vector<std::string>> queued = std::move(session.multi()->queued);
  std::vector<uint16_t> stripes;
  bool all = false;
  int db = session.db();
  for (const std::vector<std::string>& args : queued) {
    const std::vector<std::string_view> argv = views(args);
    const CommandSpec& spec = *find_command(argv[0]);
    const KeyList keys(spec, argv);
    for (const std::string_view key : keys.view()) stripes.push_back(KeyLocks::stripe_of(db, key));
    all = all || (spec.is(kCmdWrite) && keys.view().empty());
    if (spec.name == "SELECT") db = static_cast<int>(parse_int64(argv[1]).value_or(db));
  }
  const std::vector<WatchTable::Watch>& watches = session.multi()->watches;
  for (const WatchTable::Watch& watch : watches) {
    stripes.push_back(KeyLocks::stripe_of(watch.db(), watch.key()));
  }
  const KeyLocks::Held held =
      all ? engine_.key_locks().lock_all() : engine_.key_locks().lock_stripes(std::move(stripes));
  for (const WatchTable::Watch& watch : watches) {
    if (is_stale(watch)) return resp::nil_array(out);
  }
  session.set_in_exec(true);
  resp::array(out, queued.size());
  for (const std::vector<std::string>& args : queued) {
    const std::vector<std::string_view> argv = views(args);
    run(session, *find_command(argv[0]), argv, out, false);
  }
  session.set_in_exec(false);
}

}  // namespace sf
