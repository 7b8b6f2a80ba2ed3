// Settings of the stand-in proxy; defaults are codis-proxy's (contracts/codis 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sf::codis {

struct ProxyOptions {
  std::string bind = "127.0.0.1";
  int port = 0;
  int admin_port = 0;
  std::string product = "codis-demo";
  std::string product_auth;  // sent to backends as AUTH
  int databases = 16;        // connections per backend and `parallel`
  int parallel = 1;
  int64_t ping_period_us = 5'000'000;
  int64_t recv_timeout_us = 30'000'000;  // of socket silence while a reply is due
  int64_t dial_timeout_us = 5'000'000;
  size_t backend_queue_max = 1024;      // requests waiting for a dial
  size_t backend_pipeline_max = 20480;  // requests unanswered
  size_t session_pipeline_max = 10000;
  size_t clients_max = 1000;
};

}  // namespace sf::codis
