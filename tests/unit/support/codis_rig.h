// What the stand-in's tests share: text forms of replies, HTTP calls, fills.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "common/base/strings.h"
#include "tests/support/codis/fake_server.h"
#include "tests/support/codis/http_api.h"
#include "tests/support/codis/proxy.h"
#include "tests/support/codis/redis_client.h"
#include "tests/support/codis/slot_json.h"

namespace sf::codis {

inline std::string reply_text(const Reply& reply) {
  switch (reply.type) {
    case Reply::Type::kStatus:
      return "+" + reply.text;
    case Reply::Type::kError:
      return "-" + reply.text;
    case Reply::Type::kInteger:
      return ":" + std::to_string(reply.integer);
    case Reply::Type::kBulk:
      return reply.text;
    case Reply::Type::kNil:
      return "nil";
    case Reply::Type::kArray:
      break;
  }
  std::string out = "[";
  for (const Reply& element : reply.elements) {
    if (out.size() > 1) out += ' ';
    out += reply_text(element);
  }
  return out + "]";
}

inline Args words_of(const std::string& line) {
  Args args;
  for (const auto word : split(line, ' ')) args.emplace_back(word);
  return args;
}

// A client of a proxy: one line, one reply as text; "closed" when the connection ended.
class TestClient {
 public:
  explicit TestClient(const std::string& address, int timeout_ms = 10000) {
    auto dialled = RedisClient::dial(address, "", timeout_ms);
    REQUIRE(dialled.is_ok());
    client_ = std::move(*dialled);
  }
  std::string ask(const std::string& line) {
    const auto replies = client_->pipeline({words_of(line)});
    return replies ? reply_text(replies->front()) : status_text(replies.status());
  }
  std::string ask_all(const std::vector<std::string>& lines) {
    std::vector<Args> requests;
    for (const auto& line : lines) requests.push_back(words_of(line));
    const auto replies = client_->pipeline(requests);
    if (!replies) return status_text(replies.status());
    std::string out;
    for (const Reply& reply : *replies) out += (out.empty() ? "" : " | ") + reply_text(reply);
    return out;
  }

 private:
  static std::string status_text(const Status& status) {
    return status.code() == Code::kTimeout ? "timeout" : "closed";
  }
  std::unique_ptr<RedisClient> client_;
};

struct HttpAnswer {
  int status = 0;
  std::string text;
  Json body;
};

inline HttpAnswer http(const std::string& method, const std::string& address,
                       const std::string& path, const std::string& body = "") {
  const auto client = make_client(address);
  const auto result =
      method == "GET" ? client->Get(path) : client->Put(path, body, "application/json");
  REQUIRE(result);
  return {result->status, result->body, Json::parse(result->body, nullptr, false)};
}

// True as soon as `fn` is; false after 10 s.
inline bool eventually(const std::function<bool()>& fn) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!fn()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class ProxyRig {
 public:
  explicit ProxyRig(ProxyOptions options = {}) : proxy(options, [] {}) {
    REQUIRE(proxy.start().is_ok());
    CHECK(http("PUT", proxy.admin_address(), "/api/proxy/start/" + proxy.xauth()).status == 200);
  }
  HttpAnswer fill(const std::vector<SlotFill>& slots) {
    Json body = Json::array();
    for (const auto& slot : slots) body.push_back(to_json(slot));
    return http("PUT", proxy.admin_address(), "/api/proxy/fillslots/" + proxy.xauth(), body.dump());
  }
  // Every slot to `address`.
  void fill_all(const std::string& address, int group = 1) {
    std::vector<SlotFill> slots(kSlots);
    for (int i = 0; i < kSlots; ++i) {
      auto& slot = slots[static_cast<size_t>(i)];
      slot.id = i;
      slot.backend_addr = address;
      slot.backend_group = group;
      slot.forward_method = 1;
    }
    CHECK(fill(slots).status == 200);
  }
  Proxy proxy;
};

inline SlotFill plain_fill(int id, const std::string& address, int group, bool locked = false) {
  SlotFill slot;
  slot.id = id;
  slot.locked = locked;
  slot.backend_addr = address;
  slot.backend_group = group;
  slot.forward_method = 1;
  return slot;
}

inline SlotFill moving_fill(int id, const std::string& from, const std::string& to, int method) {
  SlotFill slot = plain_fill(id, to, 2);
  slot.migrate_from = from;
  slot.migrate_from_group = 1;
  slot.forward_method = method;
  return slot;
}

}  // namespace sf::codis
