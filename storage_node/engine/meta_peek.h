// The two facts the engine needs of a kMeta value, whose grammar belongs to types/meta.h: it begins
// with type (1) | flags (1) | expire_ms (8, big endian, 0: never), and for every type but strings
// (1) goes on with version (8).
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/coding.h"

namespace sf {

struct MetaPeek {
  int64_t expire_ms = 0;
  uint64_t version = 0;  // 0 for strings
};

inline bool peek_meta(std::string_view value, MetaPeek* peek) {
  constexpr size_t kHeader = 10;
  constexpr char kStringType = 1;
  if (value.size() < kHeader) return false;
  peek->expire_ms = static_cast<int64_t>(big64(value.data() + 2));
  peek->version = 0;
  if (value[0] == kStringType) return true;
  if (value.size() < kHeader + 8) return false;
  peek->version = big64(value.data() + kHeader);
  return true;
}

}  // namespace sf
