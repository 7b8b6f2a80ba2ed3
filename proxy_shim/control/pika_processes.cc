#include "proxy_shim/control/pika_processes.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr int64_t kClocksApartS = 60;  // more between two looks: started anew
constexpr int64_t kSameStartS = 6;     // uptimes asked for one after the other

}  // namespace

PikaProcesses::Start PikaProcesses::noted(const std::string& note) const {
  const std::optional<std::string> text = notes_->note(note);
  const Json said = text ? Json::parse(*text, nullptr, false) : Json();
  if (!said.is_object()) return {};
  return {said.value("pid", ""), said.value("since", int64_t{0}), said.value("last", int64_t{0})};
}

int64_t PikaProcesses::start_of(const PikaServer& said) const {
  return clock_->wall_ms() / 1000 - *said.uptime_s;
}

std::string PikaProcesses::name(const HostPort& address, const PikaServer& said) {
  if (!said.uptime_s) return said.process;
  const std::string note = cat("pika.start.", address.text());
  const int64_t now_s = start_of(said);
  Start& start = starts_[address.text()];
  // What another driver of this shim noted a moment before holds for all: a start that each
  // reckoned by itself would be a second apart, and two names of one process.
  if (const Start known = noted(note); !known.pid.empty()) start = known;
  const bool same = start.pid == said.process && std::abs(now_s - start.last_s) <= kClocksApartS;
  if (!same) start = {said.process, now_s, 0};
  // Clocks drift apart slowly; what is noted goes with them.
  if (std::abs(now_s - start.last_s) > kSameStartS / 2) {
    start.last_s = now_s;
    const Json fresh = {{"pid", start.pid}, {"since", start.since_s}, {"last", start.last_s}};
    (void)notes_->put_note(note, fresh.dump());
  }
  return cat(start.pid, " of ", address.text(), " since ", start.since_s);
}

bool PikaProcesses::same_server(const HostPort& address, const std::string& name,
                                const HostPort& other,
                                const std::function<Result<PikaServer>()>& ask) {
  if (other == address) return true;
  if (other.port != address.port) return false;
  const std::string both = cat(other.text(), " ", name);
  const auto found = others_.find(both);
  if (found != others_.end()) return found->second;
  const Result<PikaServer> said = ask();
  if (!said) return false;
  const auto start = starts_.find(address.text());
  if (start == starts_.end() || !said->uptime_s) return said->process == name;
  return others_[both] = said->process == start->second.pid &&
                         std::abs(start_of(*said) - start->second.last_s) <= kSameStartS;
}

}  // namespace sf
