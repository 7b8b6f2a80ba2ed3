#include "common/slots/slot_set.h"

#include "common/base/strings.h"

namespace sf {
namespace {

Result<int> parse_slot(std::string_view text, std::string_view whole) {
  const auto number = parse_int64(text);
  if (!number) {
    return Status::invalid(cat("slots '", printable(whole), "': '", printable(text),
                               "' is not a slot number; write for example 901-1023 or 5,7-9"));
  }
  if (*number < 0 || *number >= kSlotCount) {
    return Status::invalid(
        cat("slots '", printable(whole), "': ", *number, " is outside 0-", kSlotCount - 1));
  }
  return static_cast<int>(*number);
}

}  // namespace

SlotSet SlotSet::all() {
  SlotSet set;
  set.bits_.set();
  return set;
}

SlotSet SlotSet::of(int slot) {
  SlotSet set;
  set.add(slot);
  return set;
}

SlotSet SlotSet::range(int first, int last) {
  SlotSet set;
  for (int slot = first; slot <= last; ++slot) set.add(slot);
  return set;
}

Result<SlotSet> SlotSet::parse(std::string_view text) {
  if (equals_ignore_case(text, "all")) return all();
  if (text.empty()) return Status::invalid("no slots given; write for example 901-1023 or 5,7-9");
  SlotSet set;
  for (const std::string_view part : split(text, ',')) {
    const size_t dash = part.find('-', 1);
    const auto first = parse_slot(part.substr(0, dash), text);
    if (!first) return first.status();
    auto last = first;
    if (dash != std::string_view::npos) last = parse_slot(part.substr(dash + 1), text);
    if (!last) return last.status();
    if (*last < *first) {
      return Status::invalid(cat("slots '", printable(text), "': the range ", part, " is reversed; write ",
                                 *last, "-", *first));
    }
    const SlotSet piece = range(*first, *last);
    if (set.intersects(piece)) {
      return Status::invalid(cat("slots '", printable(text), "': ", part, " is named twice"));
    }
    set.add(piece);
  }
  return set;
}

std::string SlotSet::text() const {
  std::string out;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    if (!contains(slot)) continue;
    const int first = slot;
    while (slot + 1 < kSlotCount && contains(slot + 1)) ++slot;
    if (!out.empty()) out.push_back(',');
    append_int(out, first);
    if (slot > first) {
      out.push_back('-');
      append_int(out, slot);
    }
  }
  return out;
}

int SlotSet::first() const {
  const size_t at = bits_._Find_first();
  return at == bits_.size() ? -1 : static_cast<int>(at);
}

std::vector<int> SlotSet::to_vector() const {
  std::vector<int> slots;
  for_each([&](int slot) { slots.push_back(slot); });
  return slots;
}

}  // namespace sf
