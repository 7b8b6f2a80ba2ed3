#include "migrator/verifier.h"

#include <xxhash.h>

#include <algorithm>

namespace sf {
namespace {

constexpr int kPage = 500;
constexpr size_t kRoundKeys = 500;
constexpr int64_t kRelativeToleranceMs = 100;
constexpr int kFirstWaitMs = 5;

std::string describe(const KeyImage& image) {
  if (!image.exists) return "nothing";
  std::string text =
      cat(image.type, " of ", image.count, image.type == "string" ? " bytes" : " elements");
  if (image.expire_ms >= 0) text += cat(", expires at ", image.expire_ms);
  return text;
}

uint64_t key_digest(const std::string& key) {
  return XXH3_64bits(key.data(), key.size());
}

Status stopped() {
  return Status::refused("stopped by the operator");
}

}  // namespace

bool is_internal_key(std::string_view key) {
  return key.find("__slotferry:") != std::string_view::npos ||
         key.starts_with("_internal:slotkey:4migrate:");
}

void VerifyResult::add(const VerifyResult& other) {
  keys += other.keys;
  bytes += other.bytes;
  rechecked += other.rechecked;
  differing += other.differing;
  for (const Difference& difference : other.differences) {
    if (differences.size() < kDifferencesKept) differences.push_back(difference);
  }
}

Verifier::Verifier(Peer& leader, Peer& follower, const VerifyOptions& options, const Clock& clock,
                   const StopFlag& stop, std::function<void(int64_t)> done)
    : leader_(leader),
      follower_(follower),
      options_(options),
      clock_(clock),
      stop_(stop),
      done_(std::move(done)) {}

Status Verifier::prepare() {
  const auto leader_way = find_expiry_way(leader_);
  if (!leader_way) return leader_way.status();
  const auto follower_way = find_expiry_way(follower_);
  if (!follower_way) return follower_way.status();
  leader_way_ = *leader_way;
  follower_way_ = *follower_way;
  const bool exact = leader_way_ == ExpiryWay::kExact && follower_way_ == ExpiryWay::kExact;
  tolerance_ms_ = exact ? 0 : kRelativeToleranceMs;
  return Status::ok();
}

Result<VerifyResult> Verifier::run() {
  Status status = prepare();
  if (!status) return status;
  if (options_.by_slot) {
    int64_t finished = 0;
    for (const int slot : options_.slots.to_vector()) {
      status = pass_slot(slot);
      if (!status) return status;
      done_(++finished);
    }
  } else {
    status = pass_whole();
    if (!status) return status;
  }
  status = recheck();
  if (!status) return status;
  return result_;
}

Status Verifier::pass_slot(int slot) {
  seen_.emplace();
  const Status forth = scan(
      leader_, slot, [this](const std::vector<std::string>& keys) { return compare_chunk(keys); });
  if (!forth) return forth;
  return scan(follower_, slot,
              [this](const std::vector<std::string>& keys) { return find_extras(keys); });
}

Status Verifier::pass_whole() {
  int64_t seen = 0;
  const Status forth = scan(leader_, -1, [&](const std::vector<std::string>& keys) {
    done_(seen += static_cast<int64_t>(keys.size()));
    return compare_chunk(keys);
  });
  if (!forth) return forth;
  return scan(follower_, -1,
              [this](const std::vector<std::string>& keys) { return find_extras(keys); });
}

// Every key that is there all the time is passed on at least once, in pages. slot -1: the whole
// server.
Status Verifier::scan(Peer& peer, int slot,
                      const std::function<Status(const std::vector<std::string>&)>& page) {
  std::string cursor = "0";
  do {
    if (stop_.raised()) return stopped();
    Argv request = {"SCAN"};
    if (slot >= 0) request = {"SLOTSSCAN", std::to_string(slot)};
    request.insert(request.end(), {cursor, "COUNT", std::to_string(kPage)});
    const auto reply = peer.expect(request);
    if (!reply) return reply.status();
    if (reply->items.size() != 2)
      return Status::corrupt(cat(peer.label(), " answers ", request[0], " oddly"));
    std::vector<std::string> keys;
    for (const Reply& item : reply->items[1].items) {
      std::string key = item.word();
      if (options_.slots.contains(slot_of(key)) && !is_internal_key(key))
        keys.push_back(std::move(key));
    }
    const Status passed = keys.empty() ? Status::ok() : page(keys);
    if (!passed) return passed;
    cursor = reply->items[0].word();
  } while (cursor != "0");
  return Status::ok();
}

void Verifier::suspect(std::string key, KeyImage leader, std::string kind) {
  suspects_.push_back({std::move(key), {std::move(leader)}, std::move(kind), {}});
}

Status Verifier::compare_chunk(const std::vector<std::string>& keys) {
  auto images =
      read_image_pair(leader_, follower_, keys, leader_way_, follower_way_, clock_.wall_ms());
  if (!images) return images.status();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (seen_) seen_->insert(key_digest(keys[i]));
    KeyImage& image = images->leader[i];
    if (image.exists) {
      ++result_.keys;
      result_.bytes += image.bytes;
    }
    std::string kind = compare_images(image, images->follower[i], tolerance_ms_);
    if (kind.empty() && image.big) {
      const auto differs = compare_big(leader_, follower_, keys[i], image.type);
      if (!differs) return differs.status();
      if (!differs->empty()) kind = "value";
    }
    if (!kind.empty()) suspect(keys[i], std::move(image), std::move(kind));
  }
  if (seen_ && seen_->size() > kSeenMax) seen_.reset();
  return suspects_.size() >= kSuspectsMax ? recheck() : Status::ok();
}

// The leader did not show these keys in its own scan, or that is not known any more: does it have
// them?
Status Verifier::find_extras(const std::vector<std::string>& keys) {
  std::vector<std::string> unknown;
  for (const std::string& key : keys) {
    if (!seen_ || !seen_->contains(key_digest(key))) unknown.push_back(key);
  }
  if (unknown.empty()) return Status::ok();
  std::vector<Argv> requests;
  for (const std::string& key : unknown) requests.push_back({"TYPE", key});
  const auto types = leader_.pipeline(requests);
  if (!types) return types.status();
  for (size_t i = 0; i < unknown.size(); ++i) {
    if ((*types)[i].word() == "none") suspect(unknown[i], KeyImage{}, "extra");
  }
  return suspects_.size() >= kSuspectsMax ? recheck() : Status::ok();
}

Result<bool> Verifier::settled(Suspect& suspect, const KeyImage& follower) {
  const KeyImage& newest = suspect.seen.back();
  suspect.kind = compare_images(newest, follower, tolerance_ms_);
  suspect.text = cat("leader ", describe(newest), ", follower ", describe(follower));
  if (suspect.kind.empty() && newest.big) {
    const auto differs = compare_big(leader_, follower_, suspect.key, newest.type);
    if (!differs) return differs.status();
    suspect.kind = differs->empty() ? "" : "value";
    suspect.text = cat("big ", newest.type, " differs at ", *differs);
    return suspect.kind.empty();
  }
  for (const KeyImage& image : suspect.seen) {
    if (!image.big && compare_images(image, follower, tolerance_ms_).empty()) return true;
  }
  return false;
}

Status Verifier::recheck_round(int round) {
  const int wait = std::min(options_.recheck_wait_max_ms, kFirstWaitMs << std::min(round, 10));
  if (stop_.wait_ms(wait)) return stopped();
  std::vector<Suspect> left;
  for (size_t at = 0; at < suspects_.size(); at += kRoundKeys) {
    const size_t end = std::min(suspects_.size(), at + kRoundKeys);
    std::vector<std::string> keys;
    for (size_t i = at; i < end; ++i) keys.push_back(suspects_[i].key);
    auto leader = read_images(leader_, keys, leader_way_, clock_.wall_ms());
    if (!leader) return leader.status();
    const auto follower = read_images(follower_, keys, follower_way_, clock_.wall_ms());
    if (!follower) return follower.status();
    for (size_t i = at; i < end; ++i) {
      suspects_[i].seen.push_back(std::move((*leader)[i - at]));
      const auto equal = settled(suspects_[i], (*follower)[i - at]);
      if (!equal) return equal.status();
      if (!*equal) left.push_back(std::move(suspects_[i]));
    }
  }
  suspects_ = std::move(left);
  return Status::ok();
}

Status Verifier::recheck() {
  result_.rechecked += static_cast<int64_t>(suspects_.size());
  for (int round = 0; round < options_.recheck_rounds && !suspects_.empty(); ++round) {
    const Status status = recheck_round(round);
    if (!status) return status;
  }
  for (Suspect& suspect : suspects_) {
    ++result_.differing;
    if (result_.differences.size() >= kDifferencesKept) continue;
    const int slot = slot_of(suspect.key);
    result_.differences.push_back(
        {slot, std::move(suspect.key), suspect.kind, std::move(suspect.text)});
  }
  suspects_.clear();
  if (result_.differing >= static_cast<int64_t>(kSuspectsMax)) {
    return Status::refused(cat("the two sides differ in ", result_.differing,
                               " keys at least, so this is no copy; stopped comparing"));
  }
  return Status::ok();
}

}  // namespace sf
