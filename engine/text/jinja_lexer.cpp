#include "engine/text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/text/jinja_unicode.h"
#include "engine/text/jinja_value.h"

namespace quire::jinja {
namespace {

using Type = Token::Type;

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_part(char c) {
  return is_name_start(c) || is_decimal(c);
}

int hex_value(char c) {
  if (is_decimal(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string normalize_newlines(const std::string& source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// Decodes the escapes of a string literal as Python does.
class EscapeDecoder {
 public:
  EscapeDecoder(std::string_view raw, int line) : raw_(raw), line_(line) {}

  std::string decode() {
    while (position_ < raw_.size()) {
      const char c = raw_[position_++];
      if (c == '\\') {
        escape();
      } else {
        out_ += c;
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    static constexpr std::string_view kNames = "\\'\"abfnrtv";
    static constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    const char c = raw_[position_++];
    if (const auto index = kNames.find(c); index != kNames.npos) {
      out_ += kValues[index];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      code_point(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c >= '0' && c <= '7') {
      octal(c);
    } else if (c == 'N') {
      fail_here("a \\N{...} escape is not supported");
    } else if (c != '\n') {
      (out_ += '\\') += c;
    }
  }

  void code_point(int digits) {
    std::int64_t code = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = position_ < raw_.size() ? hex_value(raw_[position_]) : -1;
      if (digit < 0) fail_here("an escape in a string lacks digits");
      code = code * 16 + digit;
      ++position_;
    }
    append(code);
  }

  void octal(char first) {
    int code = first - '0';
    for (int i = 0; i < 2 && position_ < raw_.size(); ++i) {
      const char c = raw_[position_];
      if (c < '0' || c > '7') break;
      code = code * 8 + (c - '0');
      ++position_;
    }
    append(code);
  }

  void append(std::int64_t code) {
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      fail_here("an escape in a string names no character");
    }
    append_utf8(out_, static_cast<int>(code));
  }

  [[noreturn]] void fail_here(const std::string& what) const { fail_in_line(line_, what); }

  std::string_view raw_;
  int line_;
  std::size_t position_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) root();
    emit(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(position_); }
  bool at(std::string_view what) const { return rest().substr(0, what.size()) == what; }
  bool at(std::string_view what, std::size_t offset) const {
    return offset <= source_.size() && source_.compare(offset, what.size(), what) == 0;
  }

  [[noreturn]] void fail_here(const std::string& what) const { fail_in_line(line_, what); }

  void emit(Type type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  // Moves to `end`, counting lines.
  void advance_to(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(position_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    if (end > position_) line_starting_ = source_[end - 1] == '\n';
    position_ = end;
  }

  // Template text up to the next tag, and that tag.
  void root() {
    const std::size_t tag = find_tag(position_);
    if (tag == source_.npos) {
      emit(Type::kData, source_.substr(position_));
      advance_to(source_.size());
      return;
    }
    const char kind = source_[tag + 1];
    const char control = control_at(tag + 2);
    data(tag, control, kind != '{');
    std::size_t raw_body = 0;
    if (kind == '%' && raw_begins(tag, raw_body)) {
      advance_to(raw_body);
      raw();
      return;
    }
    advance_to(tag + 2 + (control != 0));
    if (kind == '#') {
      comment();
    } else {
      inside(kind == '{');
    }
  }

  std::size_t find_tag(std::size_t from) const {
    for (std::size_t i = source_.find('{', from); i != source_.npos; i = source_.find('{', i + 1)) {
      const char next = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return i;
    }
    return source_.npos;
  }

  char control_at(std::size_t offset) const {
    const char c = offset < source_.size() ? source_[offset] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  // Emits the text before a tag, stripped as the tag's control and lstrip_blocks say.
  void data(std::size_t end, char control, bool may_lstrip) {
    std::string_view text = std::string_view(source_).substr(position_, end - position_);
    if (control == '-') {
      text = text.substr(0, trim_end(text));
    } else if (control != '+' && may_lstrip) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_begin = newline == text.npos ? 0 : newline + 1;
      const bool starts_line = newline != text.npos || line_starting_;
      if (starts_line && skip_space(text, line_begin) == text.size()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) emit(Type::kData, std::string(text));
    advance_to(end);
  }

  // The end of a tag that begins at `offset` with '-', '+' or its closing `mark`: what follows it
  // after trimming; npos when it is no such end.
  std::size_t tag_end(std::size_t offset, std::string_view mark, bool block) const {
    if (offset < source_.size() && source_[offset] == '-' && at(mark, offset + 1)) {
      return skip_space(source_, offset + 1 + mark.size());
    }
    if (block && offset < source_.size() && source_[offset] == '+' && at(mark, offset + 1)) {
      return offset + 1 + mark.size();
    }
    if (!at(mark, offset)) return source_.npos;
    const std::size_t end = offset + mark.size();
    return block && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void comment() {
    const std::size_t close = source_.find("#}", position_);
    if (close == source_.npos) fail_here("a comment has no end");
    std::size_t begin = close;
    if (close > position_ && control_at(close - 1) != 0) --begin;
    advance_to(tag_end(begin, "#}", true));
  }

  bool raw_begins(std::size_t tag, std::size_t& body) const {
    std::size_t i = tag + 2 + (control_at(tag + 2) != 0);
    i = skip_space(source_, i);
    if (!at("raw", i)) return false;
    i = skip_space(source_, i + 3);
    if (at("-%}", i)) {
      body = skip_space(source_, i + 3);
    } else if (at("%}", i)) {
      body = i + 2;
    } else {
      return false;
    }
    return true;
  }

  void raw() {
    for (std::size_t tag = source_.find("{%", position_); tag != source_.npos;
         tag = source_.find("{%", tag + 1)) {
      const char control = control_at(tag + 2);
      std::size_t i = skip_space(source_, tag + 2 + (control != 0));
      if (!at("endraw", i)) continue;
      const std::size_t end = tag_end(skip_space(source_, i + 6), "%}", true);
      if (end == source_.npos) continue;
      data(tag, control, true);
      advance_to(end);
      return;
    }
    fail_here("a raw block has no end");
  }

  void inside(bool variable) {
    emit(variable ? Type::kVariableBegin : Type::kBlockBegin, "");
    std::string open;
    while (true) {
      if (position_ >= source_.size()) fail_here("a tag has no end");
      if (open.empty()) {
        const std::size_t end = tag_end(position_, variable ? "}}" : "%}", !variable);
        if (end != source_.npos) {
          emit(variable ? Type::kVariableEnd : Type::kBlockEnd, "");
          advance_to(end);
          return;
        }
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = source_[position_];
    const std::size_t after_space = skip_space(source_, position_);
    if (after_space > position_) {
      advance_to(after_space);
    } else if (is_decimal(c)) {
      number();
    } else if (is_name_start(c)) {
      std::size_t end = position_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      take(Type::kName, end);
    } else if (c == '\'' || c == '"') {
      string(c);
    } else {
      operator_token(open);
    }
  }

  void take(Type type, std::size_t end) {
    emit(type, source_.substr(position_, end - position_));
    advance_to(end);
  }

  std::size_t skip_digits(std::size_t i) const {
    while (i < source_.size() &&
           (is_decimal(source_[i]) ||
            (source_[i] == '_' && i + 1 < source_.size() && is_decimal(source_[i + 1])))) {
      ++i;
    }
    return i;
  }

  void number() {
    const char base = position_ + 1 < source_.size() ? source_[position_ + 1] | 0x20 : '\0';
    if (source_[position_] == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      std::size_t end = position_ + 2;
      while (end < source_.size() && (hex_value(source_[end]) >= 0 || source_[end] == '_')) ++end;
      return take(Type::kInteger, end);
    }
    std::size_t end = skip_digits(position_);
    bool is_float = false;
    // "1.real" and "x.0.1" are no floats: a digit must follow the point, and none may precede.
    const bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' &&
        is_decimal(source_[end + 1])) {
      end = skip_digits(end + 1);
      is_float = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
      std::size_t exponent = end + 1;
      if (control_at(exponent) != 0) ++exponent;
      if (exponent < source_.size() && is_decimal(source_[exponent])) {
        end = skip_digits(exponent);
        is_float = true;
      }
    }
    take(is_float ? Type::kFloat : Type::kInteger, end);
  }

  void string(char quote) {
    std::size_t i = position_ + 1;
    while (i < source_.size() && source_[i] != quote) i += source_[i] == '\\' ? 2 : 1;
    if (i >= source_.size()) fail_here("a string has no closing quote");
    const std::string_view raw = std::string_view(source_).substr(position_ + 1, i - position_ - 1);
    emit(Type::kString, EscapeDecoder(raw, line_).decode());
    advance_to(i + 1);
  }

  void operator_token(std::string& open) {
    static constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view pair : kPairs) {
      if (at(pair)) return take(Type::kOperator, position_ + 2);
    }
    const char c = source_[position_];
    if (kSingle.find(c) == kSingle.npos) fail_here("unexpected character " + shown());
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail_here("unexpected " + shown());
      open.pop_back();
    }
    take(Type::kOperator, position_ + 1);
  }

  std::string shown() const {
    const Character c = character_at(source_, position_);
    if (c.code < 0) return "(not UTF-8)";
    return "'" + source_.substr(position_, c.length) + "'";
  }

  std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& source) {
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace quire::jinja
