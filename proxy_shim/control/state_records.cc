#include "proxy_shim/control/state_records.h"

#include <nlohmann/json.hpp>

#include "common/base/coding.h"

namespace sf {
namespace {

using Json = nlohmann::json;

}  // namespace

std::string slot_key(int slot) {
  std::string key = "s";
  put_big16(key, static_cast<uint16_t>(slot));
  return key;
}

std::string entry_key(uint64_t number) {
  std::string key = "a";
  put_big64(key, number);
  return key;
}

std::string listed_key(const ListedKey& key) {
  std::string out = "k";
  put_big16(out, static_cast<uint16_t>(key.slot));
  out.push_back(static_cast<char>(key.at.db));
  return out + key.at.key;
}

std::string heal_text(const HealRecord& record) {
  return Json{{"clean", record.clean}, {"passed", record.passed}, {"pair", record.pair}}.dump();
}

std::string epoch_text(uint64_t epoch) {
  return Json{{"epoch", epoch}}.dump();
}

std::string lock_text(const RunLock& lock) {
  return Json{{"owner", lock.owner}, {"epoch", lock.epoch}}.dump();
}

std::string note_text(const std::string& value) {
  return Json{{"value", value}}.dump();
}

std::optional<ListedKey> parse_listed_key(std::string_view key) {
  if (key.size() < 4) return std::nullopt;
  return ListedKey{big16(key.data() + 1),
                   {static_cast<uint8_t>(key[3]), std::string(key.substr(4))}};
}

bool StateRecords::take(std::string_view key, std::string_view value) {
  try {
    return take_any(key, value);
  } catch (const Json::exception&) {  // a value of a wrong type
    return false;
  }
}

bool StateRecords::take_any(std::string_view key, std::string_view value) {
  switch (key[0]) {
    case 'a':
      if (key.size() != 9) return false;
      next_entry = big64(key.data() + 1) + 1;
      return true;
    case 'k':
      return true;
    case 's': {
      const auto record = parse_record(value);
      if (key.size() != 3 || !record) return false;
      slots[big16(key.data() + 1)] = *record;
      return true;
    }
    default:
      return take_object(key, Json::parse(value, nullptr, false));
  }
}

bool StateRecords::take_object(std::string_view key, const Json& json) {
  if (!json.is_object()) return false;
  if (key[0] == 'n') notes[std::string(key.substr(1))] = json.value("value", std::string());
  if (key == "m") masters = {json.value("old", ""), json.value("new", "")};
  if (key == "l") lock = {json.value("owner", std::string()), json.value("epoch", uint64_t{0})};
  if (key == "h") {
    heal = {json.value("clean", false), json.value("passed", false),
            json.value("pair", std::string())};
  }
  if (key == "e") epoch = json.value("epoch", uint64_t{0});
  return true;
}

}  // namespace sf
