#include "tests/support/check/loader.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/net/uv_loop.h"

namespace sf::check {
namespace {

constexpr size_t kSamplesMax = 10;

class Lane : public StreamHandler {
 public:
  Lane(Loop* loop, const Dataset* dataset, uint64_t first, uint64_t step, uint64_t count,
       int pipeline, bool compare, LoadResult* result, std::function<void()> done)
      : dataset_(dataset),
        next_(first),
        step_(step),
        count_(count),
        pipeline_(pipeline),
        compare_(compare),
        result_(result),
        done_(std::move(done)),
        loop_(loop) {}

  void start(const HostPort& proxy) {
    stream_ = loop_->connect(proxy.host, proxy.port, 5'000'000, this);
    send();
  }

  size_t on_data(std::string_view unread) override {
    size_t used = 0;
    while (parser_.parse(unread.substr(used)) == ReplyParser::Outcome::kReply) {
      const auto reply = decode_reply(unread.substr(used, parser_.size()));
      used += parser_.size();
      replies_.push_back(reply.is_ok() ? *reply
                                       : Reply{Reply::Type::kError, reply.status().text(), 0, {}});
      if (static_cast<int>(replies_.size()) == window_.front().replies) judge();
    }
    if (window_.empty()) send();
    return used;
  }

  void on_closed(const Status& why) override { fail("connection: " + why.text()); }

 private:
  struct Sent {
    uint64_t number;
    int replies;
  };

  void send() {
    if (next_ >= count_) {
      finish();
      return;
    }
    for (int i = 0; i < pipeline_ && next_ < count_; ++i, next_ += step_) {
      std::string& out = stream_->output();
      window_.push_back(
          {next_, compare_ ? dataset_->read(next_, out) : dataset_->make(next_, out)});
    }
    stream_->write({});
  }

  void judge() {
    ++result_->keys;
    std::string bad;
    if (compare_) {
      bad = dataset_->compare(window_.front().number, replies_);
    } else {
      for (const Reply& reply : replies_) {
        if (reply.is_error()) bad = dataset_->key(window_.front().number) + ": " + reply.text;
      }
    }
    if (!bad.empty()) {
      ++result_->bad;
      if (result_->samples.size() < kSamplesMax) result_->samples.push_back(bad);
    }
    replies_.clear();
    window_.pop_front();
  }

  void fail(const std::string& text) {
    const auto left = static_cast<int64_t>(window_.size() +
                                           (count_ - std::min(next_, count_) + step_ - 1) / step_);
    result_->bad += std::max<int64_t>(left, 1);
    if (result_->samples.size() < kSamplesMax) result_->samples.push_back(text);
    finish();
  }

  void finish() {
    if (done_) std::exchange(done_, nullptr)();
  }

  const Dataset* dataset_;
  uint64_t next_;
  uint64_t step_;
  uint64_t count_;
  int pipeline_;
  bool compare_;
  LoadResult* result_;
  std::function<void()> done_;
  Loop* loop_;
  std::unique_ptr<Stream> stream_;
  ReplyParser parser_;
  std::deque<Sent> window_;
  std::vector<Reply> replies_;
};

}  // namespace

LoadResult run_dataset(const Dataset& dataset, uint64_t count, const std::vector<HostPort>& proxies,
                       int connections, int pipeline, bool compare) {
  LoadResult result;
  const std::unique_ptr<Loop> loop = make_uv_loop();
  std::vector<std::unique_ptr<Lane>> lanes;
  int left = connections;
  for (int i = 0; i < connections; ++i) {
    lanes.push_back(std::make_unique<Lane>(loop.get(), &dataset, i, connections, count, pipeline,
                                           compare, &result, [&] {
                                             if (--left == 0) loop->stop();
                                           }));
    lanes.back()->start(proxies[static_cast<size_t>(i) % proxies.size()]);
  }
  loop->run();
  lanes.clear();
  return result;
}

}  // namespace sf::check
