#pragma once

#include <span>
#include <string_view>

#include "engine/text/jinja_callable.h"

namespace quire::jinja {

// The built-in names, in tables. Null: there is no such thing.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
// A method of this kind of value.
const Builtin* find_method(const Value& object, std::string_view name);

// Parts of the tables, one per source file.
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> string_methods();

// Shared between filters and methods of the same name.
// The [begin, end) of every line of str.splitlines(), without its end.
std::vector<ByteRange> line_ranges(std::string_view bytes);
Text trimmed(const Text& text, const Text* characters, bool left, bool right);
Text replaced(Runtime& runtime, const Text& text, const Text& from, const Text& to,
              std::int64_t count);
Text case_mapped(const Text& text, int (*map)(int));
Text title_cased(const Text& text);
Text capitalized(const Text& text);

}  // namespace quire::jinja
