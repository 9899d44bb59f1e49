#include "engine/text/jinja_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

constexpr int kMaxPrecision = 100;

// What both formatting languages can ask of one field.
struct Spec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '=' or 0
  char sign = '-';
  bool alternate = false, comma = false;
  std::int64_t width = 0;
  std::optional<int> precision;
  char type = 0;
};

void group_thousands(std::string& digits) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t i = end; i > 3; i -= 3) digits.insert(i - 3, ",");
}

std::string float_digits(double magnitude, const Spec& spec) {
  char buffer[512];
  const bool percent = spec.type == '%';
  const char type = percent ? 'f' : static_cast<char>(spec.type | 0x20);
  if (!std::isfinite(magnitude)) return std::isnan(magnitude) ? "nan" : "inf";
  if (magnitude > 1e300) fail("a number is too large to format");
  const auto format = type == 'e'   ? std::chars_format::scientific
                      : type == 'f' ? std::chars_format::fixed
                                    : std::chars_format::general;
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, percent ? magnitude * 100 : magnitude, format,
                    spec.precision.value_or(6));
  std::string out(buffer, end.ptr);
  if (spec.type == 'E' || spec.type == 'G') std::replace(out.begin(), out.end(), 'e', 'E');
  if (percent) out += '%';
  return out;
}

std::string integer_digits(std::uint64_t magnitude, const Spec& spec) {
  if (spec.type == 'b') {
    std::string out;
    do out.insert(out.begin(), static_cast<char>('0' + (magnitude & 1)));
    while ((magnitude >>= 1) != 0);
    return (spec.alternate ? "0b" : "") + out;
  }
  char buffer[32];
  const auto value = static_cast<unsigned long long>(magnitude);
  const char* format = spec.type == 'x'   ? "%llx"
                       : spec.type == 'X' ? "%llX"
                       : spec.type == 'o' ? "%llo"
                                          : "%llu";
  std::snprintf(buffer, sizeof buffer, format, value);
  if (!spec.alternate) return buffer;
  return (spec.type == 'x'   ? "0x"
          : spec.type == 'X' ? "0X"
          : spec.type == 'o' ? "0o"
                             : "") +
         std::string(buffer);
}

// Sign and digits of a number; nothing when `value` is none.
struct Digits {
  std::string sign, digits;
};

std::optional<Digits> number_digits(const Value& value, const Spec& spec) {
  static constexpr std::string_view kFloatTypes = "eEfFgG%";
  std::int64_t whole = 0;
  double number = 0;
  if (!value.to_number(number)) return std::nullopt;
  Digits out;
  const bool as_float = kFloatTypes.find(spec.type) != kFloatTypes.npos && spec.type != 0;
  const bool negative = std::signbit(number);
  if (as_float) {
    out.digits = float_digits(std::fabs(number), spec);
  } else if (value.to_integer(whole)) {
    const auto bits = static_cast<std::uint64_t>(whole);
    out.digits = integer_digits(whole < 0 ? 0 - bits : bits, spec);
  } else if (spec.type == 0) {
    out.digits = repr_float(std::fabs(number));
  } else {
    return std::nullopt;
  }
  if (spec.comma) group_thousands(out.digits);
  out.sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return out;
}

Text filled(Runtime& runtime, const Text& body, const Spec& spec, char default_align) {
  const auto count = static_cast<std::int64_t>(character_count(body.bytes()));
  if (spec.width <= count) return body;
  runtime.check_size(static_cast<std::size_t>(spec.width) * spec.fill.size());
  runtime.charge(spec.width / 16);
  const std::int64_t pad = spec.width - count;
  const char align = spec.align == 0 || spec.align == '=' ? default_align : spec.align;
  const std::int64_t left = align == '<' ? 0 : align == '>' ? pad : pad / 2;
  Text out;
  for (std::int64_t i = 0; i < left; ++i) out.append(spec.fill, Origin::kCaller);
  out.append(body);
  for (std::int64_t i = left; i < pad; ++i) out.append(spec.fill, Origin::kCaller);
  return out;
}

Text formatted_number(Runtime& runtime, const Digits& digits, const Spec& spec) {
  if (spec.align != '=') {
    return filled(runtime, Text(digits.sign + digits.digits, Origin::kCaller), spec, '>');
  }
  Spec inner = spec;
  inner.align = '>';
  inner.width = spec.width - static_cast<std::int64_t>(digits.sign.size());
  Text out(digits.sign, Origin::kCaller);
  out.append(filled(runtime, Text(digits.digits, Origin::kCaller), inner, '>'));
  return out;
}

Text formatted_text(Runtime& runtime, const Text& text, const Spec& spec, char default_align) {
  if (!spec.precision) return filled(runtime, text, spec, default_align);
  const std::size_t end = character_offset(text.bytes(), static_cast<std::size_t>(*spec.precision));
  return filled(runtime, text.slice(0, end), spec, default_align);
}

std::int64_t read_digits(std::string_view bytes, std::size_t& position) {
  std::int64_t value = 0;
  while (position < bytes.size() && bytes[position] >= '0' && bytes[position] <= '9') {
    value = value * 10 + (bytes[position++] - '0');
    if (value > 1'000'000'000) fail("a format's width is too large");
  }
  return value;
}

int read_precision(std::string_view bytes, std::size_t& position) {
  const std::int64_t precision = read_digits(bytes, position);
  if (precision > 1'000'000) fail("a format's precision is too large");
  return static_cast<int>(precision);
}

void check_precision(const Spec& spec) {
  if (spec.precision.value_or(0) > kMaxPrecision) fail("a format's precision is too large");
}

// The %-language.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {
    const List* list = arguments.list();
    if (list != nullptr && list->form == List::Form::kTuple) tuple_ = list;
  }

  Text run() {
    const std::string& bytes = format_.bytes();
    std::size_t begin = 0;
    for (std::size_t i = bytes.find('%'); i != bytes.npos; i = bytes.find('%', begin)) {
      out_.append_slice(format_, begin, i);
      position_ = i + 1;
      field();
      begin = position_;
      runtime_.charge(1);
      runtime_.check_size(out_.size());
    }
    out_.append_slice(format_, begin, bytes.size());
    const bool all_used = tuple_ != nullptr ? used_ == tuple_->items.size()
                                            : used_ > 0 || arguments_.dict() != nullptr;
    if (!all_used) fail("a format got more values than it has places");
    return std::move(out_);
  }

 private:
  char peek() const { return position_ < format_.size() ? format_.bytes()[position_] : '\0'; }

  const Value& next_argument() {
    if (tuple_ == nullptr) {
      if (used_++ > 0) fail("a format has more places than values");
      return arguments_;
    }
    if (used_ >= tuple_->items.size()) fail("a format has more places than values");
    return tuple_->items[used_++];
  }

  const Value& named_argument() {
    const std::size_t close = format_.bytes().find(')', position_);
    if (close == std::string::npos) fail("a format's '(' is not closed");
    const std::string name = format_.bytes().substr(position_ + 1, close - position_ - 1);
    position_ = close + 1;
    if (arguments_.dict() == nullptr) fail("a format with names needs a dict");
    const Value* value = arguments_.dict()->find(name);
    if (value == nullptr) fail("a format names '" + name + "', which is not there");
    return *value;
  }

  void field() {
    const Value* argument = nullptr;
    if (peek() == '(') argument = &named_argument();
    Spec spec;
    bool zero = false;
    for (char c = peek(); c != 0 && std::string_view("-+ 0#").find(c) != std::string_view::npos;
         c = peek()) {
      if (c == '-') spec.align = '<';
      if (c == '+' || (c == ' ' && spec.sign == '-')) spec.sign = c;
      if (c == '#') spec.alternate = true;
      zero |= c == '0';
      ++position_;
    }
    spec.width = read_digits(format_.bytes(), position_);
    if (peek() == '.') {
      ++position_;
      spec.precision = read_precision(format_.bytes(), position_);
    }
    spec.type = peek();
    const std::size_t at = position_++;
    if (at >= format_.size()) fail("a format ends inside a place");
    if (spec.type == '%') {
      out_.append_slice(format_, at, at + 1);
      return;
    }
    if (zero && spec.align == 0) {
      spec.align = '=';
      spec.fill = "0";
    }
    convert(argument != nullptr ? *argument : next_argument(), spec);
  }

  void convert(const Value& value, Spec spec) {
    const char type = spec.type;
    if (type == 's' || type == 'r' || type == 'a') {
      if (spec.align == '=') spec.align = 0, spec.fill = " ";
      runtime_.charge(value.cost());
      const Text text = type == 's' ? runtime_.str(value)
                                    : Text(repr(value, runtime_.max_text_bytes()), Origin::kCaller);
      out_.append(formatted_text(runtime_, text, spec, '>'));
      return;
    }
    if (std::string_view("diuxXoeEfFgG").find(type) == std::string_view::npos) {
      fail(std::string("a format's place '%") + type + "' is not supported");
    }
    check_precision(spec);
    Value number = value;
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (decimal && value.get<double>() != nullptr) {
      const double whole = std::trunc(*value.get<double>());
      if (!(std::fabs(whole) < 9e18)) fail("a number is too large to format");
      number = Value(static_cast<std::int64_t>(whole));
    }
    if (decimal) spec.type = 'd';
    const auto digits = number_digits(number, spec);
    if (!digits) fail(std::string("a format's place '%") + type + "' needs a number");
    out_.append(formatted_number(runtime_, *digits, spec));
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& arguments_;
  const List* tuple_ = nullptr;
  std::size_t used_ = 0, position_ = 0;
  Text out_;
};

// The {}-language.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Text& format, const Invocation& arguments,
                 std::size_t first)
      : runtime_(runtime), format_(format), arguments_(arguments), first_(first) {}

  Text run() {
    const std::string& bytes = format_.bytes();
    for (std::size_t i = 0; i < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", i), bytes.size());
      out_.append_slice(format_, i, brace);
      if (brace == bytes.size()) break;
      const bool doubled = brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace];
      if (doubled) {
        out_.append_slice(format_, brace, brace + 1);
        i = brace + 2;
        continue;
      }
      const std::size_t close = bytes.find('}', brace);
      if (bytes[brace] == '}' || close == bytes.npos) fail("a format has a single brace");
      field(std::string_view(bytes).substr(brace + 1, close - brace - 1));
      runtime_.charge(1);
      runtime_.check_size(out_.size());
      i = close + 1;
    }
    return std::move(out_);
  }

 private:
  const Value& argument(std::string_view name) {
    if (name.empty() || name.find_first_not_of("0123456789") == name.npos) {
      std::size_t position = 0;
      const bool automatic = name.empty();
      const auto index =
          automatic ? next_++ : static_cast<std::size_t>(read_digits(name, position));
      if (index >= arguments_.args.size() - first_) fail("a format has more places than values");
      return arguments_.args[first_ + index];
    }
    for (const auto& [key, value] : arguments_.kwargs) {
      if (key == name) return value;
    }
    if (name.find_first_of(".[") != name.npos) fail("a format's attribute access is not supported");
    fail("a format names '" + std::string(name) + "', which is not there");
  }

  void field(std::string_view field) {
    const std::size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    char conversion = 0;
    if (name.size() >= 2 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    if (field.find('{') != field.npos) fail("a format inside a format is not supported");
    const Value value = argument(name);
    const Spec spec = parse(field.substr(std::min(colon + 1, field.size())));
    check_precision(spec);
    runtime_.charge(value.cost());
    if (conversion == 'r') {
      const Text text(repr(value, runtime_.max_text_bytes()), Origin::kCaller);
      out_.append(formatted_text(runtime_, text, spec, '<'));
    } else if (conversion != 0 && conversion != 's') {
      fail("a format's conversion is not supported");
    } else {
      convert(value, spec, conversion == 's');
    }
  }

  void convert(const Value& value, const Spec& spec, bool as_text) {
    const bool is_number = value.integer() != nullptr || value.get<double>() != nullptr;
    if (as_text || !is_number || spec.type == 's') {
      if (spec.type != 0 && spec.type != 's') fail("a format's place needs a number");
      out_.append(formatted_text(runtime_, runtime_.str(value), spec, '<'));
      return;
    }
    Spec number = spec;
    if (spec.type == 0 && spec.precision) fail("a format's precision needs a type, such as .2f");
    const auto digits = number_digits(value, number);
    if (!digits) fail("a format's place cannot take this number");
    out_.append(formatted_number(runtime_, *digits, number));
  }

  static bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

  static Spec parse(std::string_view text) {
    Spec spec;
    std::size_t i = 0;
    const auto peek = [&] { return i < text.size() ? text[i] : '\0'; };
    const std::size_t fill = text.empty() ? 0 : character_at(text, 0).length;
    if (fill > 0 && fill < text.size() && is_align(text[fill])) {
      spec.fill = text.substr(0, fill);
      spec.align = text[fill];
      i = fill + 1;
    } else if (is_align(peek())) {
      spec.align = text[i++];
    }
    if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[i++];
    if (peek() == '#') spec.alternate = true, ++i;
    if (peek() == '0') {
      ++i;
      if (spec.align == 0) spec.align = '=', spec.fill = "0";
    }
    spec.width = read_digits(text, i);
    if (peek() == ',') spec.comma = true, ++i;
    if (peek() == '.') {
      ++i;
      spec.precision = read_precision(text, i);
    }
    if (peek() != 0) spec.type = text[i++];
    static constexpr std::string_view kTypes = "sdxXobeEfFgG%";
    const bool known = spec.type == 0 || kTypes.find(spec.type) != kTypes.npos;
    if (i != text.size() || !known) fail("a format's specification is not supported");
    return spec;
  }

  Runtime& runtime_;
  const Text& format_;
  const Invocation& arguments_;
  std::size_t first_, next_ = 0;
  Text out_;
};

}  // namespace

Text percent_format(Runtime& runtime, const Text& format, const Value& arguments) {
  return PercentFormatter(runtime, format, arguments).run();
}

Text brace_format(Runtime& runtime, const Text& format, const Invocation& arguments,
                  std::size_t first_argument) {
  return BraceFormatter(runtime, format, arguments, first_argument).run();
}

}  // namespace quire::jinja
