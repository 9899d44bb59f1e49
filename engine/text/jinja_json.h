#pragma once

#include <string_view>

#include "engine/text/jinja_runtime.h"

namespace quire::jinja {

// JSON text as a value; every string in it is the caller's. Bounds its nesting.
Value parse_json(std::string_view json);

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool multiline = false;  // one item a line, with `indent` before it
  std::string indent;
  std::string item_separator = ", ", key_separator = ": ";
};
// Python's json.dumps.
std::string dump_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace quire::jinja
