#include "storage_node/types/meta.h"

#include "common/base/coding.h"
#include "common/base/strings.h"

namespace sf {

namespace {

constexpr size_t kCollectionBytes = kMetaHeaderBytes + 16;
constexpr size_t kEndsBytes = kCollectionBytes + 16;

bool has_ends(KeyType type) {
  return type == KeyType::kList || type == KeyType::kZset;
}

void put_header(std::string& out, KeyType type, uint8_t flags, int64_t expire_ms) {
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(flags));
  put_big64(out, static_cast<uint64_t>(expire_ms));
}

}  // namespace

std::string_view type_name(KeyType type) {
  switch (type) {
    case KeyType::kString:
      return "string";
    case KeyType::kHash:
      return "hash";
    case KeyType::kList:
      return "list";
    case KeyType::kSet:
      return "set";
    case KeyType::kZset:
      return "zset";
  }
  return "none";
}

bool decode_meta(std::string_view stored, MetaFields* fields) {
  if (stored.size() < kMetaHeaderBytes) return false;
  uint8_t type = static_cast<uint8_t>(stored[0]);
  if (type < 1 || type > 5) return false;
  fields->type = static_cast<KeyType>(type);
  fields->flags = static_cast<uint8_t>(stored[1]);
  fields->expire_ms = static_cast<int64_t>(big64(stored.data() + 2));
  if (fields->type == KeyType::kString) return true;
  bool ends = has_ends(fields->type);
  size_t least = ends ? kEndsBytes : kCollectionBytes;
  size_t most = fields->type == KeyType::kZset ? kEndsBytes + kLowMemberBytes : least;
  if (stored.size() < least || stored.size() > most) return false;
  fields->version = big64(stored.data() + kMetaHeaderBytes);
  fields->size = big64(stored.data() + kMetaHeaderBytes + 8);
  if (ends) {
    fields->head = big64(stored.data() + kCollectionBytes);
    fields->tail = big64(stored.data() + kCollectionBytes + 8);
  }
  return true;
}

std::string encode_string_meta(std::string_view value, int64_t expire_ms) {
  std::string out;
  out.reserve(kMetaHeaderBytes + value.size());
  put_header(out, KeyType::kString, 0, expire_ms);
  out.append(value);
  return out;
}

std::string_view zset_low_member(std::string_view stored) {
  return stored.substr(kEndsBytes);
}

std::string encode_meta(const MetaFields& fields, std::string_view low_member) {
  std::string out;
  out.reserve(kEndsBytes + low_member.size());
  put_header(out, fields.type, fields.flags, fields.expire_ms);
  put_big64(out, fields.version);
  put_big64(out, fields.size);
  if (has_ends(fields.type)) {
    put_big64(out, fields.head);
    put_big64(out, fields.tail);
  }
  out.append(low_member);
  return out;
}

std::string with_expire(std::string stored, int64_t expire_ms) {
  std::string header;
  put_big64(header, static_cast<uint64_t>(expire_ms));
  return stored.replace(2, 8, header);
}

Result<Loaded> load_meta(Engine& engine, int db, std::string_view key, const ReadView* view) {
  std::string stored_key = meta_key(db, key);
  auto found = engine.get(Cf::kMeta, stored_key, view);
  if (!found) return found.status();
  Loaded loaded;
  if (!found->has_value()) return loaded;
  Meta meta;
  meta.stored = std::move(**found);
  if (!decode_meta(meta.stored, &meta)) {
    return Status::corrupt(cat("stored value of key ", printable(key), " is damaged"));
  }
  loaded.stored = true;
  if (meta.expire_ms == 0 || !meta.expired_at(engine.expiry_now_ms(slot_of_stored(stored_key)))) {
    loaded.live = std::move(meta);
  }
  return loaded;
}

Result<Loaded> load_typed(Engine& engine, int db, std::string_view key, KeyType type,
                          const ReadView* view) {
  auto loaded = load_meta(engine, db, key, view);
  if (loaded && *loaded && (*loaded)->type != type) {
    return Status::refused(std::string(kWrongTypeText));
  }
  return loaded;
}

void put_string(WriteTxn& txn, int db, std::string_view key, const Loaded& before,
                std::string_view value, int64_t expire_ms) {
  std::string stored_key = meta_key(db, key);
  if (before.created() != 0) txn.count_keys(db, slot_of_stored(stored_key), before.created());
  txn.put(Cf::kMeta, std::move(stored_key), encode_string_meta(value, expire_ms));
}

void erase_key(WriteTxn& txn, int db, std::string_view key) {
  std::string stored_key = meta_key(db, key);
  txn.count_keys(db, slot_of_stored(stored_key), -1);
  txn.erase(Cf::kMeta, std::move(stored_key));
}

void put_expire(WriteTxn& txn, int db, std::string_view key, const Meta& meta, int64_t expire_ms) {
  txn.put(Cf::kMeta, meta_key(db, key), with_expire(meta.stored, expire_ms));
}

}  // namespace sf
