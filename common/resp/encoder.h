// RESP2 encoding, appended to a byte string.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sf::resp {

void status(std::string& out, std::string_view text);  // +OK
void error(std::string& out, std::string_view text);   // -ERR ...; CR and LF in text become blanks
void integer(std::string& out, int64_t value);         // :1
void bulk(std::string& out, std::string_view bytes);   // $3
void nil(std::string& out);                            // $-1
void nil_array(std::string& out);                      // *-1
void array(std::string& out, size_t elements);         // *2, then the elements
void bulk_int(std::string& out, int64_t value);        // integer as a bulk
// Redis 7.0's text for a double (%.17g): "3", "3.1000000000000001", "1e+20", "inf", "-inf", "nan".
void bulk_double(std::string& out, double value);
std::string format_double(double value);

// A request: array of bulks.
void request(std::string& out, std::span<const std::string_view> argv);
std::string request(std::initializer_list<std::string_view> argv);

}  // namespace sf::resp
