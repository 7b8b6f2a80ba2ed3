// How handlers answer errors: every Status becomes one RESP error here.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace sf {

// `text` is the whole error, its code word included ("ERR ...", "WRONGTYPE ...").
void reply_error(std::string& out, std::string_view text);
// kInvalid, kRefused, kNotFound and kExists carry the text to send (Engine::commit, load_typed);
// the errors of the machine (I/O, space, damage) get "ERR " in front.
void reply_error(std::string& out, const Status& status);

}  // namespace sf
