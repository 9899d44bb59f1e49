#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire::jinja {

// Characters as Python's str sees them, over UTF-8 bytes. A byte that is no part of valid UTF-8
// counts as one character of its own and maps to itself.
struct Character {
  int code = 0;            // -1: an invalid byte
  std::size_t length = 1;  // in bytes
};
Character character_at(std::string_view bytes, std::size_t position);
std::size_t character_count(std::string_view bytes);
// Byte offset of the `index`-th character; bytes.size() when there are not so many.
std::size_t character_offset(std::string_view bytes, std::size_t index);
void append_utf8(std::string& out, int code);

// str.isspace() of one character.
bool is_space(int code);
bool is_printable(int code);
bool is_letter(int code);
bool is_digit(int code);
bool is_upper(int code);
bool is_lower(int code);
int to_upper(int code);
int to_lower(int code);
int to_title(int code);

// [begin, end) without the white space at the chosen ends.
std::size_t skip_space(std::string_view bytes, std::size_t begin);
std::size_t trim_end(std::string_view bytes);

}  // namespace quire::jinja
