// The secrets of Codis's HTTP APIs (contracts/codis 4.1).
#pragma once

#include <string>

namespace sf::codis {

std::string dashboard_xauth(const std::string& product);
std::string proxy_xauth(const std::string& product, const std::string& product_auth,
                        const std::string& token);
// 32 hex digits, the same after a restart on the same addresses. Codis mixes the machine's network
// cards in and uses MD5; nobody but the process itself can tell the difference.
std::string make_token(const std::string& product, const std::string& address,
                       const std::string& admin_address);

}  // namespace sf::codis
