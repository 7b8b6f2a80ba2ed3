#include "common/base/coding.h"

namespace sf {
namespace {

template <class T>
void put_big(std::string& out, T v) {
  char buf[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) {
    buf[i] = static_cast<char>(v >> (8 * (sizeof(T) - 1 - i)));
  }
  out.append(buf, sizeof(T));
}

template <class T>
T get_big(const char* p) {
  T v = 0;
  for (size_t i = 0; i < sizeof(T); ++i) v = static_cast<T>((v << 8) | static_cast<uint8_t>(p[i]));
  return v;
}

template <class T>
bool take_big(std::string_view& in, T* v) {
  if (in.size() < sizeof(T)) return false;
  *v = get_big<T>(in.data());
  in.remove_prefix(sizeof(T));
  return true;
}

}  // namespace

void put_big16(std::string& out, uint16_t v) { put_big(out, v); }
void put_big32(std::string& out, uint32_t v) { put_big(out, v); }
void put_big64(std::string& out, uint64_t v) { put_big(out, v); }

void put_varint(std::string& out, uint64_t v) {
  while (v >= 0x80) {
    out.push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out.push_back(static_cast<char>(v));
}

void put_bytes(std::string& out, std::string_view bytes) {
  put_varint(out, bytes.size());
  out.append(bytes);
}

uint16_t big16(const char* p) { return get_big<uint16_t>(p); }
uint32_t big32(const char* p) { return get_big<uint32_t>(p); }
uint64_t big64(const char* p) { return get_big<uint64_t>(p); }

bool take_byte(std::string_view& in, uint8_t* v) {
  if (in.empty()) return false;
  *v = static_cast<uint8_t>(in[0]);
  in.remove_prefix(1);
  return true;
}

bool take_big16(std::string_view& in, uint16_t* v) { return take_big(in, v); }
bool take_big32(std::string_view& in, uint32_t* v) { return take_big(in, v); }
bool take_big64(std::string_view& in, uint64_t* v) { return take_big(in, v); }

bool take_varint(std::string_view& in, uint64_t* v) {
  uint64_t result = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t byte = 0;
    if (!take_byte(in, &byte)) return false;
    result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) {
      *v = result;
      return true;
    }
  }
  return false;
}

bool take_bytes(std::string_view& in, std::string_view* bytes) {
  uint64_t size = 0;
  if (!take_varint(in, &size) || in.size() < size) return false;
  *bytes = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

}  // namespace sf
