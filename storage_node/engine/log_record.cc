#include "storage_node/engine/log_record.h"

#include "common/base/coding.h"
#include "common/base/strings.h"

namespace sf {

namespace {

constexpr char kMark = 'F';
constexpr char kFormat = 1;

class BatchReader : public rocksdb::WriteBatch::Handler {
 public:
  explicit BatchReader(DecodeWhat what) : what_(what) {}

  rocksdb::Status PutCF(uint32_t cf, const rocksdb::Slice& key,
                        const rocksdb::Slice& value) override {
    return add(WriteOp::Kind::kPut, cf, key, value);
  }
  rocksdb::Status DeleteCF(uint32_t cf, const rocksdb::Slice& key) override {
    return add(WriteOp::Kind::kDelete, cf, key, {});
  }
  rocksdb::Status DeleteRangeCF(uint32_t cf, const rocksdb::Slice& begin,
                                const rocksdb::Slice& end) override {
    return add(WriteOp::Kind::kDeleteRange, cf, begin, end);
  }
  void LogData(const rocksdb::Slice& blob) override { log_data_.assign(blob.data(), blob.size()); }

  std::vector<WriteOp> ops;
  const std::string& log_data() const { return log_data_; }

 private:
  rocksdb::Status add(WriteOp::Kind kind, uint32_t cf, const rocksdb::Slice& key,
                      const rocksdb::Slice& value) {
    if (what_ == DecodeWhat::kAll && replicated(cf, key)) {
      ops.push_back({kind, static_cast<Cf>(cf), key.ToString(), value.ToString()});
    }
    return rocksdb::Status::OK();
  }

  static bool replicated(uint32_t cf, const rocksdb::Slice& key) {
    if (cf < static_cast<uint32_t>(Cf::kSys)) return true;
    return key.starts_with({kSharedPrefix.data(), kSharedPrefix.size()});
  }

  DecodeWhat what_;
  std::string log_data_;
};

}  // namespace

std::string encode_log_data(uint64_t seq, int64_t time_ms, LogEntry::Kind kind,
                            const SlotSet& slots) {
  std::string out;
  out.push_back(kMark);
  out.push_back(kFormat);
  out.push_back(static_cast<char>(kind));
  put_big64(out, seq);
  put_big64(out, static_cast<uint64_t>(time_ms));
  if (kind == LogEntry::Kind::kReload) out.append(slots.text());
  return out;
}

Result<LogEntry> decode_batch(const rocksdb::WriteBatch& batch, DecodeWhat what) {
  BatchReader reader(what);
  const rocksdb::Status read = batch.Iterate(&reader);
  if (!read.ok()) return Status::corrupt(cat("a log batch is unreadable: ", read.ToString()));
  std::string_view in = reader.log_data();
  if (in.empty()) return Status::not_found("no log entry");
  LogEntry entry;
  uint8_t mark = 0;
  uint8_t format = 0;
  uint8_t kind = 0;
  uint64_t time_ms = 0;
  if (!take_byte(in, &mark) || !take_byte(in, &format) || !take_byte(in, &kind) ||
      !take_big64(in, &entry.seq) || !take_big64(in, &time_ms) || mark != kMark ||
      format != kFormat || (kind != 1 && kind != 2)) {
    return Status::corrupt("a log batch has log data of another program or version");
  }
  entry.time_ms = static_cast<int64_t>(time_ms);
  entry.kind = static_cast<LogEntry::Kind>(kind);
  if (entry.kind == LogEntry::Kind::kReload) {
    Result<SlotSet> slots = SlotSet::parse(in);
    if (!slots) return Status::corrupt(cat("a log batch names no slots: ", slots.status().text()));
    entry.slots = *slots;
    return entry;
  }
  if (what == DecodeWhat::kAll) {
    for (const WriteOp& op : reader.ops) {
      if (op.cf != Cf::kSys) entry.slots.add(slot_of_stored(op.key));
    }
    entry.ops = std::make_shared<const std::vector<WriteOp>>(std::move(reader.ops));
  }
  return entry;
}

}  // namespace sf
