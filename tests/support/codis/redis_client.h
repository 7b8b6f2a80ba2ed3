// A blocking client as the dashboard's (contracts/codis 2): every -ERR reply or broken connection
// ends it; the next call needs a new one. One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/resp/reply_parser.h"

namespace sf::codis {

using Args = std::vector<std::string>;

class RedisClient {
 public:
  // Dials within min(1 s, timeout), sends AUTH if there is a password. Error texts are Go's.
  static Result<std::unique_ptr<RedisClient>> dial(const std::string& address,
                                                   const std::string& password, int timeout_ms);
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // A reply that is an error becomes an error status with its text, and the client is broken.
  Result<Reply> call(const Args& args);
  // All requests in one write, then as many replies.
  Result<std::vector<Reply>> pipeline(const std::vector<Args>& requests);
  Status select(int database);  // only if it differs

  bool broken() const { return broken_; }
  int database() const { return database_; }

 private:
  RedisClient(int fd, std::string name, int timeout_ms);
  Status send(const std::string& bytes);
  Result<Reply> read_reply();
  Status fail(Status why);

  const int fd_;
  const std::string name_;  // "127.0.0.1:1->127.0.0.1:2"
  const int timeout_ms_;
  int64_t deadline_us_ = 0;
  bool broken_ = false;
  int database_ = 0;
  std::string buffer_;
};

// INFO's fields; section titles left out.
std::vector<std::pair<std::string, std::string>> info_fields(const std::string& text);

}  // namespace sf::codis
