// The operator's commands (docs/COMMANDS.md), without the network. Long ones answer later;
// the others at once. Called on the admin server's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy_shim/control/cutover_runner.h"
#include "proxy_shim/control/plan_reloader.h"
#include "proxy_shim/control/shim_report.h"

namespace sf {

class AdminCommands {
 public:
  // Gets one whole RESP reply; called once, on any thread.
  using Answer = std::function<void(std::string)>;

  // `reloader` may be null: SHIM RELOAD is refused then.
  AdminCommands(const RunPorts& ports, CutoverRunner* runner, const ShimReport* report,
                PlanReloader* reloader = nullptr);

  // `argv` is a request after authentication, `peer` who sent it (for the audit log).
  void run(const std::vector<std::string>& argv, const std::string& peer, Answer answer);

  // No more writes to `side`'s master, and none under way (kTimeout: some do not end). With `still`
  // false: it takes writes again.
  Result<DataPlane::Drained> hold_still(PairSide side, bool still);

 private:
  using Words = std::vector<std::string>;
  struct Call {
    Words words;  // after SHIM, in the order given, AS <owner> <epoch> taken off
    std::string as;
    std::string peer;
    Answer answer;
  };
  using Handler = void (AdminCommands::*)(Call&);
  struct Entry {
    const char* name;
    const char* usage;
    size_t words_min;  // the subcommand counts
    size_t words_max;
    bool changes;  // needs the run lock if AS is given, and is audited
    Handler handler;
  };
  static const std::vector<Entry>& table();

  void shim(Call& call);
  Status check_lock(const Words& words, size_t* used) const;
  Result<SlotSet> slots_of(const std::string& text) const;

  void status(Call& call);
  void slots(Call& call);
  void lock(Call& call);
  void unlock(Call& call);
  void permit(Call& call);
  void cutover(Call& call);
  void rollback(Call& call);
  void move(Call& call, bool back);
  void abort(Call& call);
  void automatic(Call& call);
  void final(Call& call);
  void reload(Call& call);
  void freeze(Call& call);
  void reads(Call& call);
  void guard(Call& call);
  void set_rules(Call& call, const DataRules& rules);
  void help(Call& call);

  const RunPorts ports_;
  CutoverRunner* const runner_;
  const ShimReport* const report_;
  PlanReloader* const reloader_;
};

}  // namespace sf
