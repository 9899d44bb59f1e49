#include "engine/text/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace quire::jinja {

Character character_at(std::string_view bytes, std::size_t position) {
  const auto lead = static_cast<unsigned char>(bytes[position]);
  if (lead < 0x80) return {lead, 1};
  utf8proc_int32_t code = -1;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data() + position);
  const auto left =
      static_cast<utf8proc_ssize_t>(std::min<std::size_t>(bytes.size() - position, 4));
  const utf8proc_ssize_t length = utf8proc_iterate(data, left, &code);
  if (length <= 0) return {-1, 1};
  return {code, static_cast<std::size_t>(length)};
}

std::size_t character_count(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < bytes.size(); i += character_at(bytes, i).length) ++count;
  return count;
}

std::size_t character_offset(std::string_view bytes, std::size_t index) {
  std::size_t offset = 0;
  while (index > 0 && offset < bytes.size()) {
    offset += character_at(bytes, offset).length;
    --index;
  }
  return offset;
}

void append_utf8(std::string& out, int code) {
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(code, buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(length));
}

bool is_space(int code) {
  if (code == ' ' || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f)) return true;
  if (code < 0x80) return false;
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_printable(int code) {
  if (code < 0) return false;
  if (code == ' ') return true;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(int code) {
  if (code < 0) return false;
  const auto category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(int code) {
  return code >= 0 && utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}
bool is_upper(int code) {
  return code >= 0 && utf8proc_category(code) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(int code) {
  return code >= 0 && utf8proc_category(code) == UTF8PROC_CATEGORY_LL;
}
int to_upper(int code) {
  return code < 0 ? code : utf8proc_toupper(code);
}
int to_lower(int code) {
  return code < 0 ? code : utf8proc_tolower(code);
}
int to_title(int code) {
  return code < 0 ? code : utf8proc_totitle(code);
}

std::size_t skip_space(std::string_view bytes, std::size_t begin) {
  while (begin < bytes.size()) {
    const Character c = character_at(bytes, begin);
    if (!is_space(c.code)) break;
    begin += c.length;
  }
  return begin;
}

std::size_t trim_end(std::string_view bytes) {
  std::size_t end = bytes.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (bytes[begin] & 0xc0) == 0x80) --begin;
    const Character c = character_at(bytes, begin);
    if (begin + c.length != end || !is_space(c.code)) break;
    end = begin;
  }
  return end;
}

}  // namespace quire::jinja
