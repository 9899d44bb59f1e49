#include <algorithm>
#include <array>

#include "engine/text/pretokenizer_regex.h"
#include "engine/text/utf8.h"

namespace quire {
namespace {

// Names that are general categories or binary properties; any other name is a script's.
constexpr std::array<std::string_view, 53> kPropertyNames = {"Any",
                                                             "L",
                                                             "L&",
                                                             "Lu",
                                                             "Ll",
                                                             "Lt",
                                                             "Lm",
                                                             "Lo",
                                                             "M",
                                                             "Mn",
                                                             "Mc",
                                                             "Me",
                                                             "N",
                                                             "Nd",
                                                             "Nl",
                                                             "No",
                                                             "P",
                                                             "Pc",
                                                             "Pd",
                                                             "Ps",
                                                             "Pe",
                                                             "Pi",
                                                             "Pf",
                                                             "Po",
                                                             "S",
                                                             "Sm",
                                                             "Sc",
                                                             "Sk",
                                                             "So",
                                                             "Z",
                                                             "Zs",
                                                             "Zl",
                                                             "Zp",
                                                             "C",
                                                             "Cc",
                                                             "Cf",
                                                             "Co",
                                                             "Cn",
                                                             "Cs",
                                                             "Alphabetic",
                                                             "Lowercase",
                                                             "Uppercase",
                                                             "White_Space",
                                                             "Emoji",
                                                             "Math",
                                                             "ASCII",
                                                             "ID_Start",
                                                             "ID_Continue",
                                                             "Ideographic",
                                                             "Extender",
                                                             "Dash",
                                                             "Hex_Digit",
                                                             "Emoji_Presentation"};

constexpr std::string_view kWordSet = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

// A single pass over the pattern; every method consumes from `pos_`.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (pos_ < pattern_.size() && error_.empty()) step();
    if (in_class_) fail("an unclosed character class");
    if (!error_.empty())
      return make_error(ErrorCode::kUnsupportedModel,
                        "the tokenizer's pattern \"" + std::string(pattern_.substr(0, 200)) +
                            "\" uses " + error_ + ", which is not supported");
    return std::move(out_);
  }

 private:
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  char peek(std::size_t ahead = 0) const {
    return pos_ + ahead < pattern_.size() ? pattern_[pos_ + ahead] : '\0';
  }
  void copy(std::size_t count) {
    out_.append(pattern_.substr(pos_, count));
    pos_ += std::min(count, pattern_.size() - pos_);
  }

  void step() {
    const char c = peek();
    if (c == '\\') {
      escape();
    } else if (in_class_) {
      class_member(c);
    } else if (c == '[') {
      open_class();
    } else if (c == '(') {
      group();
    } else if (c == '{') {
      interval();
    } else {
      copy(1);
    }
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') fail("an empty character class");
  }

  void class_member(char c) {
    if (c == '[') return fail("a nested character class");
    if (c == '&' && peek(1) == '&') return fail("class intersection (&&)");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    copy(1);
    if (peek() == '*') return fail("a (*VERB)");
    if (peek() != '?') return;
    copy(1);
    const char kind = peek();
    if (kind == '<' && (peek(1) == '=' || peek(1) == '!')) return copy(2);
    if (kind == ':' || kind == '=' || kind == '!' || kind == '>') return copy(1);
    if (kind != 'i' && kind != '-') return fail("an unusual group");
    while (peek() == 'i' || peek() == '-') copy(1);
    if (peek() != ':' && peek() != ')') fail("an option other than i");
  }

  // "{n,m}+" repeats the repetition in Ruby's syntax, and is possessive in PCRE2's.
  void interval() {
    const std::size_t close = pattern_.find('}', pos_);
    if (close == std::string_view::npos) return fail("a lone {");
    const std::string_view body = pattern_.substr(pos_ + 1, close - pos_ - 1);
    if (body.empty() || body.front() == ',' ||
        body.find_first_not_of("0123456789,") != std::string_view::npos)
      return fail("a lone {");
    copy(body.size() + 2);
    if (peek() == '+') fail("{n,m}+");
  }

  void escape() {
    if (pos_ + 1 >= pattern_.size()) return fail("a lone backslash");
    const char c = peek(1);
    switch (c) {
      case 's':
        return replace(2, "\\p{White_Space}");
      case 'S':
        return replace(2, "\\P{White_Space}");
      case 'd':
        return replace(2, "\\p{Nd}");
      case 'D':
        return replace(2, "\\P{Nd}");
      case 'w':
        return replace(2, in_class_ ? std::string(kWordSet) : "[" + std::string(kWordSet) + "]");
      case 'W':
        if (in_class_) return fail("\\W in a character class");
        return replace(2, "[^" + std::string(kWordSet) + "]");
      case 'v':
        return replace(2, "\\x0b");
      case 'h':
        return replace(2, in_class_ ? "0-9a-fA-F" : "[0-9a-fA-F]");
      case 'p':
      case 'P':
        return property();
      case 'x':
        return hexadecimal();
      case 'u':
        return four_digits();
      case 'A':
      case 'z':
      case 'b':
      case 'B':
        if (in_class_ || c == 'b' || c == 'B') return fail(std::string("\\") + c);
        return copy(2);
      default:
        break;
    }
    const bool letter_or_digit =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    constexpr std::string_view kSameMeaning = "rntfae";
    if (letter_or_digit && kSameMeaning.find(c) == std::string_view::npos)
      return fail(std::string("\\") + c);
    out_.push_back('\\');
    ++pos_;
    copy(read_utf8(pattern_, pos_).length);
  }

  void replace(std::size_t count, const std::string& text) {
    out_ += text;
    pos_ += count;
  }

  void property() {
    const std::size_t close = pattern_.find('}', pos_);
    if (peek(2) != '{' || close == std::string_view::npos) return fail("\\p without a name");
    std::string_view name = pattern_.substr(pos_ + 3, close - pos_ - 3);
    std::string prefix;
    if (!name.empty() && name.front() == '^') {
      prefix = "^";
      name.remove_prefix(1);
    }
    const bool known =
        std::find(kPropertyNames.begin(), kPropertyNames.end(), name) != kPropertyNames.end();
    out_ +=
        std::string("\\") + peek(1) + "{" + prefix + (known ? "" : "sc:") + std::string(name) + "}";
    pos_ = close + 1;
  }

  void hexadecimal() {
    if (peek(2) != '{') return copy(std::min<std::size_t>(4, pattern_.size() - pos_));
    const std::size_t close = pattern_.find('}', pos_);
    if (close == std::string_view::npos) return fail("an unclosed \\x{");
    copy(close + 1 - pos_);
  }

  void four_digits() {
    if (pos_ + 6 > pattern_.size()) return fail("a short \\u");
    const std::string digits(pattern_.substr(pos_ + 2, 4));
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos)
      return fail("a short \\u");
    replace(6, "\\x{" + digits + "}");
  }

  std::string_view pattern_;
  std::string out_, error_;
  std::size_t pos_ = 0;
  bool in_class_ = false;
};

}  // namespace

Result<std::string> translate_regex(std::string_view pattern) {
  if (pattern.size() > kMaxRegexBytes)
    return make_error(ErrorCode::kUnsupportedModel,
                      "a pattern of the tokenizer is longer than 16384 bytes");
  if (!is_valid_utf8(pattern))
    return make_error(ErrorCode::kBadModelFile, "a pattern of the tokenizer is not UTF-8");
  return Translator(pattern).run();
}

}  // namespace quire
