#include "proxy_shim/control/pika_faults.h"

#include <algorithm>

namespace sf {
namespace {

constexpr const char* kText = "text";
constexpr const char* kGoneAfter = "1000";

}  // namespace

Status begin_trial(RespClient& old_side, const PikaTrial& trial, int64_t timeout_ms) {
  return old_side
      .ask_all({{"SET", trial.ttl_key, "1", "EX", kGoneAfter},
                {"INCR", trial.ttl_key},
                {"APPEND", trial.append_key, kText},
                // Should nobody come to delete it.
                {"EXPIRE", trial.append_key, kGoneAfter},
                {"SETEX", trial.setex_key, kGoneAfter, kText}},
               timeout_ms)
      .status();
}

Result<std::vector<PikaFault>> read_trial(RespClient& new_side, const PikaTrial& trial,
                                          int64_t timeout_ms) {
  Result<std::vector<Reply>> said = new_side.ask_all({{"GET", trial.ttl_key},
                                                      {"TTL", trial.ttl_key},
                                                      {"EXISTS", trial.append_key},
                                                      {"GET", trial.append_key},
                                                      {"GET", trial.setex_key}},
                                                     timeout_ms);
  if (!said) return said.status();
  const Reply &counter = (*said)[0], &ttl = (*said)[1], &there = (*said)[2], &text = (*said)[3];
  const bool timed_lost = (*said)[4].text != kText;
  if ((counter.text != "2" && !timed_lost) || there.integer != 1) {
    return Status::unavailable(cat("trial keys written to the old master are not readable at ",
                                   new_side.address().text(), " yet"));
  }
  std::vector<PikaFault> out;
  if (timed_lost) {
    out.push_back({"setex",
                   "SETEX, PSETEX, SET with EX or PX, and INCR and APPEND on a key with a TTL "
                   "leave no key on the replica"});
  } else if (ttl.integer <= 0) {
    out.push_back({"ttl",
                   "INCR, INCRBY, INCRBYFLOAT and APPEND on a key with a TTL lose the TTL on the "
                   "replica"});
  }
  if (text.text != kText) {
    out.push_back({"append", "APPEND that makes a key leaves it empty on the replica"});
  }
  return out;
}

Status end_trial(RespClient& old_side, const PikaTrial& trial, int64_t timeout_ms) {
  return old_side
      .ask_all({{"DEL", trial.ttl_key}, {"DEL", trial.append_key}, {"DEL", trial.setex_key}},
               timeout_ms)
      .status();
}

std::vector<PikaFault> faults_of_version(int major, int minor) {
  if (major != 3 || minor != 5) return {};
  return {
      {"streams",
       "a full copy of Pika 3.5 leaves streams out, and Pika lists none, so those that were not "
       "written since the shim was attached are missing"}};
}

bool is_healable(const PikaFault& fault, bool timed) {
  return fault.name == "ttl" || fault.name == "append" || (fault.name == "setex" && timed);
}

std::string not_accepted(const std::vector<PikaFault>& found,
                         const std::vector<std::string>& accepted, bool timed) {
  std::string names, texts;
  for (const PikaFault& fault : found) {
    if (is_healable(fault, timed)) continue;
    if (std::find(accepted.begin(), accepted.end(), fault.name) != accepted.end()) continue;
    names += cat(names.empty() ? "" : ", ", "\"", fault.name, "\"");
    texts += cat(texts.empty() ? "" : "; ", fault.text);
  }
  if (names.empty()) return "";
  return cat("these servers do not replicate faithfully: ", texts,
             ". If clients have no such keys, or they were copied, add ", names,
             " to the plan's accept and say SHIM RELOAD");
}

}  // namespace sf
