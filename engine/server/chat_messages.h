#pragma once

#include "engine/server/json_fields.h"

namespace quire {

// Checks the messages of a chat request and brings them to the shape templates expect: role
// developer becomes system (joined to a system message before it), content becomes one string (text
// parts joined by line ends, null is empty), arguments of earlier tool calls become objects where
// they parse. Anything but text in a content is refused.
std::optional<ApiError> normalise_messages(const Json& messages, const ServerLimits& limits,
                                           Json& result);

}  // namespace quire
