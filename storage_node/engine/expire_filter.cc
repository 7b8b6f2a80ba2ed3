#include "storage_node/engine/expire_filter.h"

#include "storage_node/engine/key_format.h"

namespace sf {

namespace {

constexpr int64_t kMarginMs = 3600 * 1000;

class ExpireFilter : public rocksdb::CompactionFilter {
 public:
  explicit ExpireFilter(std::unique_ptr<MetaSource> metas) : metas_(std::move(metas)) {}
  const char* Name() const override { return "sf.expire_filter"; }

  bool Filter(int /*level*/, const rocksdb::Slice& key, const rocksdb::Slice& /*value*/,
              std::string* /*new_value*/, bool* /*value_changed*/) const override {
    int db = 0;
    int slot = 0;
    std::string_view user_key;
    std::string_view rest;
    uint64_t version = 0;
    const std::string_view stored(key.data(), key.size());
    if (!parse_data_key(stored, &db, &slot, &user_key, &version, &rest)) return false;
    const std::string_view collection = stored.substr(0, stored.size() - rest.size());
    if (collection != last_collection_) {
      last_collection_ = collection;
      last_dead_ = is_dead(stored.substr(0, kPrefixBytes), slot, user_key, version);
    }
    return last_dead_;
  }

 private:
  bool is_dead(std::string_view prefix, int slot, std::string_view user_key,
               uint64_t version) const {
    std::string meta_key(prefix);
    meta_key.append(user_key);
    const std::optional<MetaSource::Answer> answer = metas_->find(meta_key);
    if (!answer) return false;
    if (!answer->exists || answer->meta.version != version) return true;
    const int64_t expire_ms = answer->meta.expire_ms;
    return expire_ms != 0 && expire_ms + kMarginMs < metas_->expiry_now_ms(slot);
  }

  std::unique_ptr<MetaSource> metas_;
  // A compaction walks keys in order, on one thread: the last collection's answer serves its whole
  // run.
  mutable std::string last_collection_;
  mutable bool last_dead_ = false;
};

class ExpireFilterFactory : public rocksdb::CompactionFilterFactory {
 public:
  explicit ExpireFilterFactory(std::function<std::unique_ptr<MetaSource>()> open)
      : open_(std::move(open)) {}
  const char* Name() const override { return "sf.expire_filter_factory"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    return std::make_unique<ExpireFilter>(open_());
  }

 private:
  std::function<std::unique_ptr<MetaSource>()> open_;
};

}  // namespace

std::shared_ptr<rocksdb::CompactionFilterFactory> make_expire_filter(
    std::function<std::unique_ptr<MetaSource>()> open) {
  return std::make_shared<ExpireFilterFactory>(std::move(open));
}

}  // namespace sf
