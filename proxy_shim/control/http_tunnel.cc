#include "proxy_shim/control/http_tunnel.h"

#include <array>

namespace sf {
namespace {

constexpr int64_t kConnectUs = 1'000'000;
constexpr std::array<std::string_view, 3> kMethods = {"GET ", "HEAD ", "OPTIONS "};
constexpr size_t kLineMax = 8192;

}  // namespace

HttpTunnel::HttpTunnel(Loop& loop, int pages_port, Stream& client, std::function<void()> ended)
    : client_(client), ended_(std::move(ended)) {
  pages_ = loop.connect("127.0.0.1", pages_port, kConnectUs, this);
  pages_->set_marks(kHigh / 4, kHigh);
  client_.set_marks(kHigh / 4, kHigh);
}

HttpTunnel::Verdict HttpTunnel::looks_like_http(std::string_view bytes) {
  for (const std::string_view method : kMethods) {
    if (bytes.size() < method.size() && method.starts_with(bytes)) return Verdict::kNeedMore;
    if (!bytes.starts_with(method)) continue;
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      return bytes.size() < kLineMax ? Verdict::kNeedMore : Verdict::kNo;
    }
    const bool said = bytes.substr(0, end).find(" HTTP/1.") != std::string_view::npos;
    return said ? Verdict::kYes : Verdict::kNo;
  }
  return Verdict::kNo;
}

void HttpTunnel::forward(std::string_view bytes) {
  pages_->write(bytes);
  if (pages_->unsent_bytes() > kHigh) client_.pause_reading();
}

void HttpTunnel::client_drained() {
  pages_->resume_reading();
}

size_t HttpTunnel::on_data(std::string_view unread) {
  client_.write(unread);
  if (client_.unsent_bytes() > kHigh) pages_->pause_reading();
  return unread.size();
}

void HttpTunnel::on_drained() {
  client_.resume_reading();
}

void HttpTunnel::on_closed(const Status&) {
  ended_();
}

}  // namespace sf
