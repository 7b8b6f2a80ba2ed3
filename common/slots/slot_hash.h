// Key to slot, as Codis and Pika compute it: CRC-32/IEEE of the tag, modulo 1024
// (contracts/codis 3.1, vectors in hash-vectors.json).
#pragma once

#include <cstdint>
#include <string_view>

namespace sf {

inline constexpr int kSlotCount = 1024;

uint32_t crc32_ieee(std::string_view bytes);

// The bytes between the first '{' and the first '}' after it; the whole key if there is no such
// pair. An empty pair "{}" is a tag too, unlike in Redis Cluster.
std::string_view hash_tag(std::string_view key);

inline int slot_of(std::string_view key) {
  return static_cast<int>(crc32_ieee(hash_tag(key)) % kSlotCount);
}

}  // namespace sf
