#include "migrator/preflight.h"

#include <algorithm>

#include "migrator/preflight_checks.h"

namespace sf {

std::string_view level_text(Check::Level level) {
  switch (level) {
    case Check::Level::kOk:
      return "ok";
    case Check::Level::kWarn:
      return "warn";
    case Check::Level::kStop:
      break;
  }
  return "stop";
}

std::vector<Check> run_preflight(const MovePlan& plan, const Clock& clock) {
  Findings findings;
  CodisDashboard dashboard(plan.dashboard, plan.product, plan.product_auth);
  const auto topology = check_dashboard(plan, dashboard, findings);
  if (topology) {
    check_slots(plan, *topology, findings);
    check_groups(plan, *topology, findings);
    check_proxies(plan, dashboard, *topology, findings);
  }
  const bool old_fine = check_servers(plan, true, findings);
  const bool new_fine = check_servers(plan, false, findings);
  if (old_fine && new_fine) {
    check_links(plan, findings);
    if (topology) check_new_side_empty(plan, *topology, findings);
    check_room(plan, findings);
    check_clocks(plan, clock, findings);
    if (plan.old_side.kind == ServerKind::kRedis) check_redis_settings(plan, findings);
    const bool sharding = plan.old_side.kind == ServerKind::kPikaSharding;
    if (sharding) check_pika_slots(plan, findings);
    if (sharding || plan.old_side.kind == ServerKind::kPika) check_pika(plan, findings);
  }
  check_shim(plan, findings);
  return findings.checks;
}

bool has_stop(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Check& check) { return check.level == Check::Level::kStop; });
}

void show_checks(Output& out, const std::vector<Check>& checks) {
  for (const Check& check : checks) {
    const std::string level(level_text(check.level));
    out.json_only("check", {{"name", json_text(check.name)},
                            {"level", json_text(level)},
                            {"evidence", json_text(check.evidence)},
                            {"way_out", json_text(check.way_out)}});
    std::string line =
        cat("   ", level, std::string(6 - level.size(), ' '), check.name,
            std::string(check.name.size() < 18 ? 18 - check.name.size() : 1, ' '), check.evidence);
    if (!check.way_out.empty()) line += cat(" -> ", check.way_out);
    out.text_only(line);
  }
}

}  // namespace sf
