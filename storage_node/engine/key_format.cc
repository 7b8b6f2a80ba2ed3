#include "storage_node/engine/key_format.h"

#include <bit>

#include "common/base/check.h"
#include "common/base/coding.h"

namespace sf {

namespace {

void put_prefix(std::string& out, int db, int slot) {
  out.push_back(static_cast<char>(db));
  put_big16(out, static_cast<uint16_t>(slot));
}

}  // namespace

std::string slot_prefix(int db, int slot) {
  std::string out;
  put_prefix(out, db, slot);
  return out;
}

std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  SF_CHECK(!end.empty());
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

std::string meta_key(int db, std::string_view user_key) {
  std::string out;
  out.reserve(kPrefixBytes + user_key.size());
  put_prefix(out, db, slot_of(user_key));
  out.append(user_key);
  return out;
}

std::string data_prefix(int db, std::string_view user_key, uint64_t version) {
  std::string out;
  out.reserve(kPrefixBytes + 12 + user_key.size());
  put_prefix(out, db, slot_of(user_key));
  put_big32(out, static_cast<uint32_t>(user_key.size()));
  out.append(user_key);
  put_big64(out, version);
  return out;
}

int slot_of_stored(std::string_view stored_key) {
  return stored_key.size() < kPrefixBytes ? -1 : big16(stored_key.data() + 1);
}

int db_of_stored(std::string_view stored_key) {
  return stored_key.size() < kPrefixBytes ? -1 : static_cast<unsigned char>(stored_key[0]);
}

bool parse_meta_key(std::string_view stored, int* db, int* slot, std::string_view* user_key) {
  if (stored.size() < kPrefixBytes) return false;
  *db = db_of_stored(stored);
  *slot = slot_of_stored(stored);
  *user_key = stored.substr(kPrefixBytes);
  return true;
}

bool parse_data_key(std::string_view stored, int* db, int* slot, std::string_view* user_key,
                    uint64_t* version, std::string_view* rest) {
  if (stored.size() < kPrefixBytes + 12) return false;
  *db = db_of_stored(stored);
  *slot = slot_of_stored(stored);
  std::string_view in = stored.substr(kPrefixBytes);
  uint32_t length = 0;
  take_big32(in, &length);
  if (in.size() < static_cast<size_t>(length) + 8) return false;
  *user_key = in.substr(0, length);
  *version = big64(in.data() + length);
  *rest = in.substr(static_cast<size_t>(length) + 8);
  return true;
}

uint64_t sortable_score(double score) {
  if (score == 0) score = 0;  // -0 as 0
  const auto bits = std::bit_cast<uint64_t>(score);
  return (bits >> 63) != 0 ? ~bits : bits | (uint64_t{1} << 63);
}

double score_of(uint64_t sortable) {
  return std::bit_cast<double>((sortable >> 63) != 0 ? sortable & ~(uint64_t{1} << 63) : ~sortable);
}

}  // namespace sf
