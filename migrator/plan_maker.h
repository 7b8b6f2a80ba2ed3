// `slotferry plan`: a plan from what the dashboard and the servers say now. Changes nothing.
#pragma once

#include <string>

#include "common/slots/move_plan.h"

namespace sf {

struct PlanRequest {
  HostPort dashboard;
  std::string product;
  std::string product_auth;
  SlotSet slots;
  int target_group = 0;
  int shim_group = 9;
  PlanShim shim;
  std::string id;  // "": made of groups and slots
  // Passwords of the servers; the product auth (which Codis gives to its servers) where empty.
  std::string old_password;
  std::string new_password;
  int64_t max_pause_ms = 500;
  int hold_share_percent = 5;
  int64_t soak_seconds = 5;
  std::vector<std::string> ask;
  bool verify = true;
  bool cleanup = false;
};

// Errors are one sentence naming the thing: slots of several groups, a group without servers,
// servers that do not answer, a wrong password, an unknown kind.
Result<MovePlan> make_plan(const PlanRequest& request);

}  // namespace sf
