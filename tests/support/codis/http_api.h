// What both of Codis's HTTP servers have in common (contracts/codis 4): JSON, indented; 200 with
// "OK" or an object; failures are HTTP 800 with {"Cause", "Stack"}; 404 in plain text.
#pragma once

#include <httplib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/base/status.h"

namespace sf::codis {

using Json = nlohmann::ordered_json;

void prepare_server(httplib::Server& server);
void reply_json(httplib::Response& response, const Json& body);
void reply_ok(httplib::Response& response);
// Errors of kind kInvalid carry no stack in Codis; others do.
void reply_error(httplib::Response& response, const Status& error);
void reply(httplib::Response& response, const Status& status);

// Binds to `port` (0: any free one) and returns the port.
Result<int> bind_http(httplib::Server& server, const std::string& host, int port);

Status bad_xauth();

// A client with Codis's limits: 1 s to connect, 60 s in all.
std::unique_ptr<httplib::Client> make_client(const std::string& address);
// 200 or the error that the answer carries.
Status check_answer(const std::string& method, const std::string& address, const std::string& path,
                    const httplib::Result& result);

// "2026-11-30 08:02:24.355 +0000 UTC".
std::string time_text();
std::string uname_text();
std::string host_name();
std::string working_folder();

}  // namespace sf::codis
