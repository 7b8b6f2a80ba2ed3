// The other end of an HTTP connection that came in on the admin port: bytes go to the pages' own
// port and back, as they are. One loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "common/net/loop.h"

namespace sf {

class HttpTunnel : public StreamHandler {
 public:
  // `client` must outlive it. `ended` is called once, when the pages have closed and everything was
  // passed on to `client`'s output.
  HttpTunnel(Loop& loop, int pages_port, Stream& client, std::function<void()> ended);

  // Whether the bytes begin an HTTP request, as far as they go: the method, and HTTP/ on the first
  // line.
  enum class Verdict { kNo, kYes, kNeedMore };
  static Verdict looks_like_http(std::string_view first_bytes);

  void forward(std::string_view bytes);  // from the client
  void client_drained();                 // its output is short again

  size_t on_data(std::string_view unread) override;
  void on_drained() override;
  void on_closed(const Status& why) override;

 private:
  static constexpr size_t kHigh = 256UL << 10;
  Stream& client_;
  const std::function<void()> ended_;
  std::unique_ptr<Stream> pages_;
};

}  // namespace sf
