// The node's settings: Pika's names where Pika has them. CONFIG GET/SET/REWRITE work on this
// object.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ops/settings.h"
#include "storage_node/engine/engine.h"

namespace sf {

// Thread-safe. Settings that can change at run time are read anew each time they are needed.
class NodeConfig {
 public:
  NodeConfig();
  // As Settings::parse.
  Status parse(int argc, char** argv);
  bool done() const { return settings_.done(); }

  std::string text(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  std::string dir() const { return text("dir"); }
  std::string config_path() const { return settings_.config_path(); }
  EngineOptions engine_options() const;

  // CONFIG GET: settings and Redis's names for some, matching the glob.
  std::vector<std::pair<std::string, std::string>> matching(std::string_view pattern) const;
  // CONFIG SET: kInvalid if unknown, not changeable at run time, or not a value for it.
  Status set(std::string_view name, std::string_view value);
  // CONFIG REWRITE: the config file, comments kept. kRefused without --config.
  Status rewrite() const;
  // Called after each successful set(), outside the lock. One; before the port is open.
  void on_change(std::function<void()> fn) { on_change_ = std::move(fn); }
  // For slaveof and the like, which are changed by commands and kept by REWRITE.
  void remember(std::string_view name, std::string_view value);

 private:
  Status set_locked(const std::string& key, std::string_view value);

  mutable std::mutex mutex_;
  Settings settings_;
  std::function<void()> on_change_ = [] {};
};

}  // namespace sf
