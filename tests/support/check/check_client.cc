#include "tests/support/check/check_client.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/support/check/dataset.h"

namespace sf::check {
namespace {

constexpr int64_t kConnectTimeoutUs = 2'000'000;
constexpr int64_t kReconnectPauseUs = 50'000;

}  // namespace

void Counts::add(const Counts& other) {
  acked_writes += other.acked_writes;
  reads += other.reads;
  errors += other.errors;
  unknown += other.unknown;
  max_stall_us = std::max(max_stall_us, other.max_stall_us);
  verdict.add(other.verdict);
  for (const auto& [bucket, count] : other.errors_by_100ms) errors_by_100ms[bucket] += count;
  for (const auto& [text, count] : other.error_texts) error_texts[text] += count;
}

struct CheckClient::Connection : StreamHandler {
  explicit Connection(CheckClient* client) : owner(client) {}

  size_t on_data(std::string_view unread) override {
    if (parser.parse(unread) == ReplyParser::Outcome::kNeedMore) return 0;
    const auto reply = decode_reply(unread.substr(0, parser.size()));
    const size_t used = parser.size();
    if (reply.is_ok()) {
      owner->answer(*reply);
    } else {
      owner->error(reply.status().text());
    }
    return used;
  }
  void on_closed(const Status& why) override {
    stream.reset();
    parser = ReplyParser();
    owner->error(cat("connection: ", why.text()));
  }

  CheckClient* owner;
  std::unique_ptr<Stream> stream;
  ReplyParser parser;
};

CheckClient::CheckClient(Loop* loop, const CheckOptions* options, int id, uint64_t seed)
    : loop_(loop), options_(options), id_(id), random_(seed + static_cast<uint64_t>(id) * 7919) {
  for (size_t i = 0; i < options->proxies.size(); ++i) {
    connections_.push_back(std::make_unique<Connection>(this));
  }
  for (int i = 0; i < options->keys_per_client; ++i) {
    Key key;
    key.kind = i % 3;
    static constexpr const char* kNames[] = {"reg", "cnt", "lst"};
    key.name =
        key_in_slots(cat("chk:", seed, ":", id, ":", kNames[key.kind], ":"),
                     static_cast<uint64_t>(id) * 31 + static_cast<uint64_t>(i), options->tags);
    keys_.push_back(std::move(key));
  }
}

CheckClient::~CheckClient() {
  loop_->cancel(timer_);
}

void CheckClient::start() {
  next();
}

void CheckClient::next() {
  if (finishing_) {
    final_next();
    return;
  }
  const size_t key = random_.below(keys_.size());
  const bool write = random_.below(10) < 6;
  switch (keys_[key].kind) {
    case 0:
      send(write ? Op::kSet : Op::kGet, key);
      break;
    case 1:
      send(write ? Op::kIncr : Op::kReadCounter, key);
      break;
    default:
      send(write ? Op::kPush : Op::kReadList, key);
      break;
  }
}

void CheckClient::send(Op op, size_t key) {
  op_ = op;
  key_ = key;
  current_ = random_.below(connections_.size());
  Connection& connection = *connections_[current_];
  if (!connection.stream) {
    const HostPort& proxy = options_->proxies[current_];
    connection.stream = loop_->connect(proxy.host, proxy.port, kConnectTimeoutUs, &connection);
  }
  busy_ = true;
  final_read_ = finishing_;
  sent_us_ = loop_->now_us();
  Key& k = keys_[key];
  std::string& out = connection.stream->output();
  switch (op) {
    case Op::kSet:
      value_ = k.reg.next_value(cat("v", id_));
      out += resp::request({"SET", k.name, value_});
      break;
    case Op::kGet:
    case Op::kReadCounter:
      out += resp::request({"GET", k.name});
      break;
    case Op::kIncr:
      out += resp::request({"INCR", k.name});
      break;
    case Op::kPush:
      element_ = k.list.next_element();
      out += resp::request({"RPUSH", k.name, std::to_string(element_)});
      break;
    case Op::kReadList:
      out += final_read_ ? resp::request({"LRANGE", k.name, "0", "-1"})
                        : resp::request({"LLEN", k.name});
      break;
  }
  connection.stream->write({});
}

void CheckClient::answer(const Reply& reply) {
  if (!busy_) return;
  if (reply.is_error()) {
    error(reply.text);
    return;
  }
  busy_ = false;
  counts_.max_stall_us = std::max(counts_.max_stall_us, loop_->now_us() - sent_us_);
  Key& k = keys_[key_];
  Verdict* verdict = &counts_.verdict;
  const bool present = reply.type != Reply::Type::kNil;
  switch (op_) {
    case Op::kSet:
      ++counts_.acked_writes;
      k.reg.acknowledged(value_);
      break;
    case Op::kGet:
      ++counts_.reads;
      k.reg.read(present, reply.text, final_read_, k.name, verdict);
      break;
    case Op::kIncr:
      ++counts_.acked_writes;
      k.counter.acknowledged(reply.integer, k.name, verdict);
      break;
    case Op::kReadCounter:
      ++counts_.reads;
      k.counter.read(present, parse_int64(reply.text).value_or(-1), final_read_, k.name, verdict);
      break;
    case Op::kPush:
      ++counts_.acked_writes;
      k.list.acknowledged(element_, reply.integer, k.name, verdict);
      break;
    case Op::kReadList: {
      ++counts_.reads;
      if (!final_read_) {
        if (reply.integer < k.list.acknowledged_count()) {
          ++verdict->stale;
          verdict->note(cat("stale: ", k.name, " has ", reply.integer, " elements, ",
                            k.list.acknowledged_count(), " acknowledged"));
        }
        break;
      }
      std::vector<std::string> elements;
      for (const Reply& element : reply.elements) elements.push_back(element.text);
      k.list.read_all(elements, k.name, verdict);
      break;
    }
  }
  if (final_read_) ++final_key_;
  if (options_->think_us > 0 && !finishing_) {
    timer_ = loop_->call_after(options_->think_us, [this] { next(); });
  } else {
    loop_->defer([this] { next(); });
  }
}

void CheckClient::error(const std::string& text) {
  if (!busy_) return;  // an idle connection broke: nothing was asked
  busy_ = false;
  ++counts_.errors;
  ++counts_.errors_by_100ms[loop_->wall_ms() / 100];
  ++counts_.error_texts[text.substr(0, 100)];
  Key& k = keys_[key_];
  if (op_ == Op::kSet || op_ == Op::kIncr || op_ == Op::kPush) ++counts_.unknown;
  if (op_ == Op::kSet) k.reg.unknown(value_);
  if (op_ == Op::kIncr) k.counter.unknown();
  if (op_ == Op::kPush) k.list.unknown(element_);
  again_later();
}

void CheckClient::again_later() {
  timer_ = loop_->call_after(kReconnectPauseUs, [this] { next(); });
}

void CheckClient::finish(int64_t give_up_us, std::function<void()> done) {
  give_up_at_us_ = loop_->now_us() + give_up_us;
  done_ = std::move(done);
  finishing_ =
      true;  // the request under way is judged as any other; then final_next reads all keys
}

void CheckClient::final_next() {
  if (final_key_ == keys_.size()) {
    done_();
    return;
  }
  if (loop_->now_us() > give_up_at_us_) {
    ++counts_.verdict.lost;
    counts_.verdict.note(cat("lost: ", keys_[final_key_].name, " cannot be read at the end"));
    ++final_key_;
    loop_->defer([this] { final_next(); });
    return;
  }
  static constexpr Op kReads[] = {Op::kGet, Op::kReadCounter, Op::kReadList};
  send(kReads[keys_[final_key_].kind], final_key_);
}

}  // namespace sf::check
