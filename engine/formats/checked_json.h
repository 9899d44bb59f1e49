#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/result.h"

namespace quire {

inline constexpr int kMaxJsonDepth = 64;

// Parses untrusted JSON text: nesting beyond kMaxJsonDepth, an object with the same key twice,
// invalid UTF-8 and trailing text are errors. `what` begins the sentence ("'x' has a header that").
// Throws std::bad_alloc only.
Result<nlohmann::json> parse_checked_json(std::string_view text, const std::string& what);

}  // namespace quire
