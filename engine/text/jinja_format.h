#pragma once

#include "engine/text/jinja_runtime.h"

namespace quire::jinja {

// Python's `format % arguments`: a tuple, a dict for %(name)s, or one value. What the format spells
// keeps its origin, as do strings put in unchanged.
Text percent_format(Runtime& runtime, const Text& format, const Value& arguments);
// Python's str.format, without attribute access and nested fields.
Text brace_format(Runtime& runtime, const Text& format, const Invocation& arguments,
                  std::size_t first_argument);

}  // namespace quire::jinja
