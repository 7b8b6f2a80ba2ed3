// A slot as the proxies get it, in JSON (contracts/codis 4.3). Absent means the zero value.
#pragma once

#include "tests/support/codis/http_api.h"
#include "tests/support/codis/proxy_slot.h"

namespace sf::codis {

Json to_json(const SlotFill& slot);
// Anything malformed or ill-typed gives an empty list, as Codis's binding ignores its own errors.
std::vector<SlotFill> fills_from_text(const std::string& body);

}  // namespace sf::codis
