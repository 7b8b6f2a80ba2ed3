#include "migrator/key_image.h"

#include <xxhash.h>

#include <algorithm>

#include "common/base/coding.h"

namespace sf {
namespace {

std::string digest_of(const std::string& bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  std::string out;
  put_big64(out, hash.high64);
  put_big64(out, hash.low64);
  return out;
}

// The elements' canonical text: each with its length, so that borders count.
std::string joined(const std::vector<std::string>& elements) {
  std::string out;
  for (const std::string& element : elements) put_bytes(out, element);
  return out;
}

// The requests that read the whole of a small value: its size first.
std::vector<Argv> value_requests(const std::string& type, const std::string& key) {
  const std::string count = std::to_string(2 * kImageElements);
  if (type == "string") {
    return {{"STRLEN", key}, {"GETRANGE", key, "0", std::to_string(kImageStringBytes - 1)}};
  }
  if (type == "list")
    return {{"LLEN", key}, {"LRANGE", key, "0", std::to_string(kImageElements - 1)}};
  if (type == "hash") return {{"HLEN", key}, {"HSCAN", key, "0", "COUNT", count}};
  if (type == "set") return {{"SCARD", key}, {"SSCAN", key, "0", "COUNT", count}};
  if (type == "zset") return {{"ZCARD", key}, {"ZSCAN", key, "0", "COUNT", count}};
  if (type == "stream") {
    return {{"XLEN", key}, {"XRANGE", key, "-", "+", "COUNT", std::to_string(kImageElements)}};
  }
  return {};
}

void flatten(const Reply& reply, std::string& out) {
  if (!reply.is_array()) return put_bytes(out, reply.word());
  put_varint(out, reply.items.size());
  for (const Reply& item : reply.items) flatten(item, out);
}

// Elements of a scan reply: members, or field and value (member and score) as one element.
std::vector<std::string> scanned(const Reply& items, size_t width) {
  std::vector<std::string> elements;
  for (size_t i = 0; i + width <= items.items.size(); i += width) {
    std::string element;
    for (size_t j = 0; j < width; ++j) put_bytes(element, items.items[i + j].word());
    elements.push_back(std::move(element));
  }
  // A scan may return an element twice while the server resizes its table.
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

void fill_scan(KeyImage& image, const Reply& reply) {
  if (reply.items.size() != 2) {
    image.unreadable = true;
    return;
  }
  if (reply.items[0].word() != "0") {
    image.big = true;
    return;
  }
  const std::string bytes = joined(scanned(reply.items[1], image.type == "set" ? 1 : 2));
  image.bytes += static_cast<int64_t>(bytes.size());
  image.digest = digest_of(bytes);
}

void fill_list(KeyImage& image, const Reply& reply) {
  std::vector<std::string> elements;
  for (const Reply& item : reply.items) elements.push_back(item.word());
  const std::string bytes = joined(elements);
  image.bytes += static_cast<int64_t>(bytes.size());
  image.digest = digest_of(bytes);
  std::sort(elements.begin(), elements.end());
  image.bag = digest_of(joined(elements));
}

void fill_value(KeyImage& image, const Reply& size, const Reply& value) {
  if (size.is_error() || value.is_error()) {
    image.unreadable = true;
    return;
  }
  image.count = size.integer;
  const int64_t limit = image.type == "string" ? kImageStringBytes : kImageElements;
  if (image.count > limit) {
    image.big = true;
    image.bytes += image.type == "string" ? image.count : 0;
    return;
  }
  if (image.type == "string") {
    image.bytes += static_cast<int64_t>(value.text.size());
    image.digest = digest_of(value.text);
  } else if (image.type == "list") {
    fill_list(image, value);
  } else if (image.type == "stream") {
    std::string bytes;
    flatten(value, bytes);
    image.bytes += static_cast<int64_t>(bytes.size());
    image.digest = digest_of(bytes);
  } else {
    fill_scan(image, value);
  }
}

// Reads one side's images: headers first, for a value is read by its type's commands.
class ImageBatch {
 public:
  ImageBatch(Peer& peer, const std::vector<std::string>& keys, ExpiryWay way)
      : peer_(peer), keys_(keys), way_(way) {}

  Status send_headers() {
    std::vector<Argv> requests;
    for (const std::string& key : keys_) {
      requests.push_back({"TYPE", key});
      requests.push_back({way_ == ExpiryWay::kExact ? "PEXPIRETIME" : "PTTL", key});
    }
    return peer_.send(requests);
  }

  Status take_headers(int64_t now_ms) {
    const auto replies = peer_.receive(2 * keys_.size());
    if (!replies) return replies.status();
    images_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      const Reply& type = (*replies)[2 * i];
      const Reply& expiry = (*replies)[2 * i + 1];
      if (type.is_error())
        return Status::refused(cat(peer_.label(), " answers TYPE with: ", type.text));
      KeyImage& image = images_[i];
      image.type = type.word();
      image.exists = image.type != "none";
      image.bytes = static_cast<int64_t>(keys_[i].size());
      if (expiry.integer >= 0)
        image.expire_ms = expiry.integer + (way_ == ExpiryWay::kExact ? 0 : now_ms);
    }
    return Status::ok();
  }

  Status send_values() {
    std::vector<Argv> requests;
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (!images_[i].exists) continue;
      const auto reads = value_requests(images_[i].type, keys_[i]);
      images_[i].unreadable = reads.empty();
      if (!reads.empty()) owners_.push_back(i);
      requests.insert(requests.end(), reads.begin(), reads.end());
    }
    return requests.empty() ? Status::ok() : peer_.send(requests);
  }

  Result<std::vector<KeyImage>> take_values() {
    if (owners_.empty()) return std::move(images_);
    const auto replies = peer_.receive(2 * owners_.size());
    if (!replies) return replies.status();
    for (size_t n = 0; n < owners_.size(); ++n) {
      fill_value(images_[owners_[n]], (*replies)[2 * n], (*replies)[2 * n + 1]);
    }
    return std::move(images_);
  }

 private:
  Peer& peer_;
  const std::vector<std::string>& keys_;
  const ExpiryWay way_;
  std::vector<KeyImage> images_;
  std::vector<size_t> owners_;  // the image of each pair of value requests
};

}  // namespace

Result<ExpiryWay> find_expiry_way(Peer& peer) {
  const auto reply = peer.call({"PEXPIRETIME", "slotferry:no-such-key"});
  if (!reply) return reply.status();
  return reply->is_error() ? ExpiryWay::kRelative : ExpiryWay::kExact;
}

Result<std::vector<KeyImage>> read_images(Peer& peer, const std::vector<std::string>& keys,
                                          ExpiryWay way, int64_t now_ms) {
  ImageBatch batch(peer, keys, way);
  Status status = batch.send_headers();
  if (status) status = batch.take_headers(now_ms);
  if (status) status = batch.send_values();
  if (!status) return status;
  return batch.take_values();
}

Result<ImagePair> read_image_pair(Peer& leader, Peer& follower,
                                  const std::vector<std::string>& keys, ExpiryWay leader_way,
                                  ExpiryWay follower_way, int64_t now_ms) {
  ImageBatch left(leader, keys, leader_way);
  ImageBatch right(follower, keys, follower_way);
  Status status = left.send_headers();
  if (status) status = right.send_headers();
  if (status) status = left.take_headers(now_ms);
  if (status) status = right.take_headers(now_ms);
  if (status) status = left.send_values();
  if (status) status = right.send_values();
  auto left_images = status ? left.take_values() : Result<std::vector<KeyImage>>(status);
  auto right_images =
      left_images ? right.take_values() : Result<std::vector<KeyImage>>(left_images.status());
  if (!right_images) {
    // Replies nobody took would answer the next requests.
    leader.disconnect();
    follower.disconnect();
    return right_images.status();
  }
  return ImagePair{std::move(*left_images), std::move(*right_images)};
}

std::string compare_images(const KeyImage& leader, const KeyImage& follower,
                           int64_t expiry_tolerance_ms) {
  if (leader.exists && !follower.exists) return "missing";
  if (!leader.exists && follower.exists) return "extra";
  if (!leader.exists) return {};
  if (leader.type != follower.type) return "type";
  if (leader.unreadable || follower.unreadable) return "value";
  if (leader.count != follower.count || leader.big != follower.big) return "value";
  if (leader.digest != follower.digest) {
    return !leader.bag.empty() && leader.bag == follower.bag ? "order" : "value";
  }
  const bool both = leader.expire_ms >= 0 && follower.expire_ms >= 0;
  const bool neither = leader.expire_ms < 0 && follower.expire_ms < 0;
  const bool close = both && std::abs(leader.expire_ms - follower.expire_ms) <= expiry_tolerance_ms;
  return neither || close ? "" : "ttl";
}

}  // namespace sf
