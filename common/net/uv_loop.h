// The real loop, on libuv. libuv's headers are included by uv_internal.h alone, for uv_*.cc.
#pragma once

#include <memory>

#include "common/net/loop.h"

namespace sf {

// TCP_NODELAY is set on every stream. Aborts if the operating system gives no epoll descriptor.
std::unique_ptr<Loop> make_uv_loop();

}  // namespace sf
