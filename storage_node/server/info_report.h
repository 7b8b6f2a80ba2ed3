// INFO: its sections, in Redis's and Pika's field names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sf {

class Node;

// `sections`: names in any case; empty, "all", "default" or "everything": all of them. Lines end
// with CRLF. Any loop thread.
std::string info_report(Node& node, const std::vector<std::string_view>& sections);

}  // namespace sf
