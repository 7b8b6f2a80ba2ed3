#include "storage_node/replica/log_report.h"

#include "common/base/strings.h"

namespace sf {

std::string log_kept_text(const Engine& engine) {
  const Engine::LogKept kept = engine.log_kept();
  std::string out =
      cat("slotferry_oldest_seq:", engine.oldest_seq(), "\r\nslotferry_log:bytes=", kept.bytes,
          ",files=", kept.files, ",keep_bytes=", kept.limits.keep_bytes,
          ",keep_seconds=", kept.limits.keep_seconds, ",spare_bytes=", kept.limits.spare_bytes,
          ",cuts=", kept.cuts, "\r\n");
  int number = 0;
  for (const Engine::LogClaim& claim : kept.claims) {
    out += cat("slotferry_log_claim", number++, ":who=", claim.claimant, ",after=", claim.after,
               ",bytes=", claim.bytes, ",lost=", claim.lost.empty() ? 0 : 1, "\r\n");
  }
  if (!kept.last_cut.empty()) out += cat("slotferry_log_last_cut:", kept.last_cut, "\r\n");
  return out;
}

}  // namespace sf
