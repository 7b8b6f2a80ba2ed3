#include "storage_node/command/reply.h"

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf {

void reply_error(std::string& out, std::string_view text) {
  resp::error(out, text);
}

void reply_error(std::string& out, const Status& status) {
  switch (status.code()) {
    case Code::kInvalid:
    case Code::kRefused:
    case Code::kNotFound:
    case Code::kExists:
      return resp::error(out, status.text());
    default:
      return resp::error(out, cat("ERR ", status.text()));
  }
}

}  // namespace sf
