#include "proxy_shim/control/slot_record.h"

#include <nlohmann/json.hpp>

namespace sf {
namespace {

using Json = nlohmann::json;

Json position_json(const ReplPosition& position) {
  return {{"history", position.history}, {"seq", position.seq}};
}

ReplPosition position_of(const Json& json) {
  return {json.value("history", std::string()), json.value("seq", uint64_t{0})};
}

std::optional<SlotPhase> phase_of(const std::string& name) {
  for (SlotPhase phase : {SlotPhase::kOld, SlotPhase::kNew, SlotPhase::kFinal}) {
    if (name == phase_name(phase)) return phase;
  }
  return std::nullopt;
}

}  // namespace

std::string record_text(const SlotRecord& record) {
  return Json{{"phase", phase_name(record.phase)},
              {"epoch", record.epoch},
              {"attempt", record.attempt},
              {"back", record.back},
              {"proof", position_json(record.proof)},
              {"promoted", position_json(record.promoted)},
              {"marked", record.marked},
              {"linked", record.linked},
              {"owner", record.owner}}
      .dump();
}

std::optional<SlotRecord> parse_record(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    const auto phase = phase_of(json.value("phase", std::string()));
    if (!phase) return std::nullopt;
    SlotRecord out;
    out.phase = *phase;
    out.epoch = json.value("epoch", uint64_t{0});
    out.attempt = json.value("attempt", uint64_t{0});
    out.back = json.value("back", false);  // not in records of shims that could not go back
    out.proof = position_of(json.value("proof", Json::object()));
    out.promoted = position_of(json.value("promoted", Json::object()));
    out.marked = json.value("marked", false);
    out.linked = json.value("linked", false);
    out.owner = json.value("owner", "");
    return out;
  } catch (const Json::exception&) {  // a value of a wrong type
    return std::nullopt;
  }
}

}  // namespace sf
