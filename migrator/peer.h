// A blocking RESP connection to one server: a node, a redis-server, or the shim's admin port. Dials
// when first used and again after a break; a request is never sent twice. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"

struct redisContext;

namespace sf {

struct Reply {
  enum class Type { kStatus, kError, kInteger, kBulk, kNil, kArray };
  Type type = Type::kNil;
  std::string text;  // kStatus, kError, kBulk
  int64_t integer = 0;
  std::vector<Reply> items;  // kArray

  bool is_error() const { return type == Type::kError; }
  bool is_nil() const { return type == Type::kNil; }
  bool is_array() const { return type == Type::kArray; }
  std::string word() const;  // text, or the integer as text, or ""
};

using Argv = std::vector<std::string>;

struct PeerOptions {
  std::string name;  // what a person calls it: "old master"; begins every error text
  HostPort address;
  std::string password;                   // "" for none
  std::string password_key = "password";  // where the operator corrects it: "plan key old.password"
  int connect_timeout_ms = 3000;
  int timeout_ms = 10'000;  // of one reply
  std::vector<Argv> greetings =
      {};  // after AUTH on every new connection; none may be answered by an error
};

class Peer {
 public:
  explicit Peer(PeerOptions options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& name() const { return options_.name; }
  const HostPort& address() const { return options_.address; }
  std::string label() const { return options_.name + " " + options_.address.text(); }

  // The reply, an error reply too. A Status means that no reply came: kUnavailable (could not
  // connect, or it is loading its data; nothing was sent), kInvalid (wrong password), kTimeout
  // (sent, effect unknown).
  Result<Reply> call(const Argv& argv);
  Result<Reply> call(const Argv& argv, int timeout_ms);
  // As call(), but an error reply becomes kRefused with "<label>: <error text>", or kUnavailable
  // from a server that is loading its data.
  Result<Reply> expect(const Argv& argv);
  Result<Reply> expect(const Argv& argv, int timeout_ms);
  // All requests are written before the first reply is read; as many replies as requests.
  Result<std::vector<Reply>> pipeline(const std::vector<Argv>& requests);
  // The two halves of pipeline(), so that two servers can work at the same time.
  Status send(const std::vector<Argv>& requests);
  Result<std::vector<Reply>> receive(size_t count);

  Status connect();  // no-op while connected
  void disconnect();

 private:
  Status broken(const char* doing);
  Status loading() const;
  Status append(const Argv& argv);
  Result<Reply> read_reply();
  Status greet();

  PeerOptions options_;
  redisContext* context_ = nullptr;
  int applied_timeout_ms_ = 0;
};

}  // namespace sf
