#include "engine/text/utf8.h"

namespace quire {
namespace {

struct Lead {
  int length = 0;  // 0: not a lead byte
  unsigned char second_min = 0x80, second_max = 0xBF;
};

// Table 3-7 of the Unicode standard (well-formed UTF-8 byte sequences).
Lead classify_lead(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  return {};
}

}  // namespace

Utf8Step read_utf8(std::string_view text, std::size_t pos) {
  const auto first = static_cast<unsigned char>(text[pos]);
  if (first < 0x80) return {first, 1, Utf8Kind::kValid};
  const Lead lead = classify_lead(first);
  if (lead.length == 0) return {};
  char32_t code_point = first & (0x7F >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    const auto so_far = static_cast<std::uint32_t>(i);
    if (pos + so_far >= text.size()) return {0xFFFD, so_far, Utf8Kind::kTruncated};
    const auto byte = static_cast<unsigned char>(text[pos + so_far]);
    const bool fits =
        i == 1 ? byte >= lead.second_min && byte <= lead.second_max : byte >= 0x80 && byte <= 0xBF;
    if (!fits) return {0xFFFD, so_far, Utf8Kind::kInvalid};
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  return {code_point, static_cast<std::uint32_t>(lead.length), Utf8Kind::kValid};
}

bool is_valid_utf8(std::string_view text) {
  for (std::size_t pos = 0; pos < text.size();) {
    if (static_cast<unsigned char>(text[pos]) < 0x80) {
      ++pos;
      continue;
    }
    const Utf8Step step = read_utf8(text, pos);
    if (step.kind != Utf8Kind::kValid) return false;
    pos += step.length;
  }
  return true;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace quire
