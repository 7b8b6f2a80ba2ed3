// The real loop, on libuv. libuv's headers are included by uv_loop.cc alone.
#pragma once

#include <memory>

#include "common/net/loop.h"

namespace sf {

// TCP_NODELAY is set on every stream. Aborts if the operating system gives no epoll descriptor.
std::unique_ptr<Loop> make_uv_loop();

}  // namespace sf
