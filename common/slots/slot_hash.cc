#include "common/slots/slot_hash.h"

#include <array>

namespace sf {
namespace {

// kTables[0] advances the checksum by one byte; kTables[n] by n more zero bytes, so that eight
// bytes are looked up independently of one another instead of each waiting for the one before.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320U ^ (c >> 1) : c >> 1;
    tables[0][i] = c;
  }
  for (size_t n = 1; n < 8; ++n) {
    for (size_t i = 0; i < 256; ++i) {
      const uint32_t before = tables[n - 1][i];
      tables[n][i] = tables[0][before & 0xff] ^ (before >> 8);
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint32_t little32(const char* p) {
  const auto byte = [p](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(p[i])); };
  return byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
}

}  // namespace

uint32_t crc32_ieee(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  while (bytes.size() >= 8) {
    const uint32_t low = crc ^ little32(bytes.data());
    const uint32_t high = little32(bytes.data() + 4);
    crc = kTables[7][low & 0xff] ^ kTables[6][low >> 8 & 0xff] ^ kTables[5][low >> 16 & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xff] ^ kTables[2][high >> 8 & 0xff] ^
          kTables[1][high >> 16 & 0xff] ^ kTables[0][high >> 24];
    bytes.remove_prefix(8);
  }
  for (const char c : bytes) crc = kTables[0][(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ (crc >> 8);
  return crc ^ 0xffffffffU;
}

std::string_view hash_tag(std::string_view key) {
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return key;
  const size_t close = key.find('}', open + 1);
  if (close == std::string_view::npos) return key;
  return key.substr(open + 1, close - open - 1);
}

}  // namespace sf
