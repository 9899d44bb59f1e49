#pragma once

#include "engine/text/jinja_ast.h"
#include "engine/text/jinja_runtime.h"

namespace quire::jinja {

// Arithmetic and comparison with Python's rules. Whole numbers have 64 bits: a result that needs
// more is a Failure.
Value arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b);
bool comparison(Runtime& runtime, Operator op, const Value& a, const Value& b);
Value negate(const Value& value);

}  // namespace quire::jinja
