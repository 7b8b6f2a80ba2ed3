#include "tests/unit/storage_node/command/shell.h"

#include <doctest/doctest.h>

#include "common/resp/encoder.h"
#include "common/slots/slot_hash.h"

namespace sf {

namespace {
// The handlers under test never look at the node.
alignas(64) char no_node[64];
}  // namespace

Shell::Shell() {
  register_hashes(registry_);
  register_lists(registry_);
  register_sets(registry_);
  register_zsets(registry_);
  open();
}

void Shell::open() {
  EngineOptions options;
  options.dir = dir_.sub("db");
  options.expire_actively = false;
  auto opened = Engine::open(options, clock_, Log());
  REQUIRE_MESSAGE(opened.is_ok(), opened.status().text());
  engine_ = std::move(*opened);
}

void Shell::reopen() {
  engine_.reset();
  open();
}

std::string Shell::run(const std::vector<std::string>& argv) {
  std::vector<std::string_view> views(argv.begin(), argv.end());
  const CommandSpec* spec = find_command(views[0]);
  REQUIRE(spec != nullptr);
  REQUIRE(spec->arity_ok(views.size()));
  CommandHandler handler = registry_.find(*spec);
  const bool bound = handler != nullptr;
  REQUIRE(bound);
  std::string out;
  CommandContext context{*engine_, reinterpret_cast<Node&>(no_node), nullptr, 0, *spec, views, out};
  handler(context);
  return out;
}

void Shell::make_string(std::string_view key, std::string_view value) {
  auto before = load_meta(*engine_, 0, key);
  REQUIRE(before.is_ok());
  WriteTxn txn;
  put_string(txn, 0, key, *before, value, 0);
  REQUIRE(engine_->commit(txn).is_ok());
}

void Shell::erase(std::string_view key) {
  if (!stored(key)) return;
  WriteTxn txn;
  erase_key(txn, 0, key);
  REQUIRE(engine_->commit(txn).is_ok());
}

void Shell::expire(std::string_view key, int64_t at_ms) {
  auto before = load_meta(*engine_, 0, key);
  REQUIRE(before.is_ok());
  REQUIRE(before->live.has_value());
  WriteTxn txn;
  put_expire(txn, 0, key, **before, at_ms);
  REQUIRE(engine_->commit(txn).is_ok());
}

bool Shell::stored(std::string_view key) {
  auto found = engine_->get(Cf::kMeta, meta_key(0, key));
  REQUIRE(found.is_ok());
  return found->has_value();
}

std::string bulks(const std::vector<std::string>& elements) {
  std::string out;
  resp::array(out, elements.size());
  for (const auto& element : elements) resp::bulk(out, element);
  return out;
}

std::string bulk(std::string_view text) {
  std::string out;
  resp::bulk(out, text);
  return out;
}

}  // namespace sf
