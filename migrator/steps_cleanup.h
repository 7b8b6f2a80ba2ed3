// The part of cleanup that is of Pika in sharding mode (steps_cleanup_pika.cc). Callers have passed
// the guards that do not depend on the kind.
#pragma once

#include <string>
#include <string_view>

#include "migrator/move_context.h"

namespace sf {

// The new master owns every slot, and each old copy follows: changes nothing.
Result<std::string> guard_pika_slots(MoveContext& context);
// Deletes the old copies on every server of the old group; run again, goes on where it was.
Result<std::string> delete_pika_slots(MoveContext& context, std::string_view step);

}  // namespace sf
