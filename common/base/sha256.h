// SHA-256 (FIPS 180-4) of a whole text, for Codis's xauth words. Not meant for big inputs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace sf {

std::array<uint8_t, 32> sha256(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);  // 64 lower-case hex digits

}  // namespace sf
