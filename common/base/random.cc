#include "common/base/random.h"

#include <random>

namespace sf {
namespace {

// splitmix64, as its author recommends for seeding.
uint64_t split_mix(uint64_t& x) {
  x += 0x9e3779b97f4a7c15ULL;
  uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = split_mix(seed);
}

uint64_t Random::system_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

uint64_t Random::next() {
  const uint64_t result = rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotl(state_[3], 45);
  return result;
}

uint64_t Random::below(uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
}

bool Random::chance(double probability) {
  return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
}

std::string Random::hex(size_t digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(digits, '0');
  for (char& c : out) c = kDigits[below(16)];
  return out;
}

}  // namespace sf
