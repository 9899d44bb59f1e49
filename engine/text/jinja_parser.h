#pragma once

#include <string>

#include "engine/text/jinja_ast.h"

namespace quire::jinja {

// Parses a template. `max_depth` bounds how deep blocks and expressions nest. Throws Failure,
// naming line and construct.
Program parse_template(const std::string& source, int max_depth);

}  // namespace quire::jinja
