// Fixed and variable width integers in byte strings. "Big" = big endian, for keys that must sort.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sf {

void put_big16(std::string& out, uint16_t v);
void put_big32(std::string& out, uint32_t v);
void put_big64(std::string& out, uint64_t v);
void put_varint(std::string& out, uint64_t v);
void put_bytes(std::string& out, std::string_view bytes);  // varint length, then the bytes

uint16_t big16(const char* p);
uint32_t big32(const char* p);
uint64_t big64(const char* p);

// Each takes its value off the front of `in`; false (and `in` unspecified) if it is not all there.
bool take_byte(std::string_view& in, uint8_t* v);
bool take_big16(std::string_view& in, uint16_t* v);
bool take_big32(std::string_view& in, uint32_t* v);
bool take_big64(std::string_view& in, uint64_t* v);
bool take_varint(std::string_view& in, uint64_t* v);
bool take_bytes(std::string_view& in, std::string_view* bytes);

}  // namespace sf
