// Runs commands in process on an engine in a temporary folder, as the server would: catalog, arity,
// handler. Replies are RESP text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage_node/command/command.h"
#include "storage_node/engine/engine.h"
#include "storage_node/types/meta.h"
#include "tests/support/temp_dir.h"

namespace sf {

class Shell {
 public:
  Shell();

  std::string run(const std::vector<std::string>& argv);
  std::string operator()(const std::vector<std::string>& argv) { return run(argv); }
  void reopen();
  Engine& engine() { return *engine_; }
  ManualClock& clock() { return clock_; }

  // What the key commands do, without them.
  void make_string(std::string_view key, std::string_view value);
  void erase(std::string_view key);
  void expire(std::string_view key, int64_t at_ms);
  bool stored(std::string_view key);

 private:
  void open();

  TempDir dir_;
  ManualClock clock_;
  CommandRegistry registry_;
  std::unique_ptr<Engine> engine_;
};

// RESP of an array of bulks; nothing else is needed in more than one test.
std::string bulks(const std::vector<std::string>& elements);
std::string bulk(std::string_view text);

}  // namespace sf
