#include "proxy_shim/control/pika_link_watch.h"

namespace sf {
namespace {

constexpr int kCopiesInVain = 4;
constexpr int kUpsInVain = 4;

}  // namespace

void PikaLinkWatch::look(const std::string& unit, bool up, bool copying, const Ends& ends,
                         const Ends& leader) {
  Seen& seen = seen_[unit];
  if (copying) {
    if (seen.copied != ends) ++seen.copies;
    seen.copied = ends;
  } else if (up) {
    seen.copies = 0;
    seen.copied.clear();
  }
  if (ends != seen.at || ends == leader) seen.ups = 0;
  if (up && !seen.up) ++seen.ups;
  seen.at = ends;
  seen.up = up;
}

int PikaLinkWatch::copies_in_vain(const std::string& unit) const {
  const auto seen = seen_.find(unit);
  return seen == seen_.end() || seen->second.copies < kCopiesInVain ? 0 : seen->second.copies - 1;
}

int PikaLinkWatch::ups_in_vain(const std::string& unit) const {
  const auto seen = seen_.find(unit);
  return seen == seen_.end() || seen->second.ups < kUpsInVain ? 0 : seen->second.ups;
}

}  // namespace sf
