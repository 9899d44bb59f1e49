#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

enum class Utf8Kind : std::uint8_t {
  kValid,
  kInvalid,    // `length` bytes that can never begin a character
  kTruncated,  // the text ends inside a character that is well-formed so far
};

// One step through a text. For kInvalid and kTruncated, [pos, pos + length) is a maximal subpart
// as Unicode (3.9, "U+FFFD Substitution of Maximal Subparts") and the WHATWG decoder define it: one
// U+FFFD stands for it.
struct Utf8Step {
  char32_t code_point = 0xFFFD;
  std::uint32_t length = 1;  // bytes, at least 1
  Utf8Kind kind = Utf8Kind::kInvalid;
};

// Reads at text[pos], pos < text.size(). Surrogates, overlong forms and values above U+10FFFF are
// invalid.
Utf8Step read_utf8(std::string_view text, std::size_t pos);

bool is_valid_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);  // code_point is a scalar value

// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace quire
