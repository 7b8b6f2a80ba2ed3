// What is wrong with a Pika's own replication (contracts/pika 2.2, 3.2), found by trying: keys of
// ours are written to the old side the way clients do, and what the new side makes of them is read.
// What the heal list puts right is information; any other fault that changes data in silence stops
// the cutover unless the plan accepts it by name (I2b).
#pragma once

#include <string>
#include <vector>

#include "proxy_shim/control/resp_client.h"

namespace sf {

struct PikaFault {
  std::string name;  // as in the plan's `accept`
  std::string text;  // what happens, for people
};

// The keys of a trial.
struct PikaTrial {
  std::string ttl_key;
  std::string append_key;
  std::string setex_key;
};

// Writes the trial's keys. Own records only; they are deleted by end_trial().
Status begin_trial(RespClient& old_side, const PikaTrial& trial, int64_t timeout_ms);
// Reads them at the new side, which has applied what was written before: what is missing there was
// lost, not late. Empty: all are as they should be. Errors: kUnavailable, it had not applied it.
Result<std::vector<PikaFault>> read_trial(RespClient& new_side, const PikaTrial& trial,
                                          int64_t timeout_ms);
Status end_trial(RespClient& old_side, const PikaTrial& trial, int64_t timeout_ms);

// What is known of a version and cannot be tried without a copy.
std::vector<PikaFault> faults_of_version(int major, int minor);

// The heal list puts right what it does (DESIGN 6.4). `timed`: it has the keys of SETEX and its
// like.
bool is_healable(const PikaFault& fault, bool timed);

// "" if each of `found` is healable or in `accepted`; else the sentence that names the others.
std::string not_accepted(const std::vector<PikaFault>& found,
                         const std::vector<std::string>& accepted, bool timed);

}  // namespace sf
