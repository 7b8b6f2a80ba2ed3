#include "tests/support/codis/auth.h"

#include "common/base/sha256.h"
#include "common/base/strings.h"

namespace sf::codis {

std::string dashboard_xauth(const std::string& product) {
  return sha256_hex(cat("Codis-XAuth-[", product, "]")).substr(0, 32);
}

std::string proxy_xauth(const std::string& product, const std::string& product_auth,
                        const std::string& token) {
  return sha256_hex(cat("Codis-XAuth-[", product, "]-[", product_auth, "]-[", token, "]"))
      .substr(0, 32);
}

std::string make_token(const std::string& product, const std::string& address,
                       const std::string& admin_address) {
  return sha256_hex(cat("Codis-Token@-", product, "-", address, "-", admin_address)).substr(0, 32);
}

}  // namespace sf::codis
