#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_operators.h"

namespace quire::jinja {
namespace {

constexpr std::size_t kMaxNumberLength = 400;  // longer text is no number we could hold

// The digits of a numeric text without the underscores between them, or nothing.
std::optional<std::string> plain_number(const Text& text) {
  const Text stripped = trimmed(text, nullptr, true, true);
  const std::string& bytes = stripped.bytes();
  if (bytes.empty() || bytes.size() > kMaxNumberLength) return std::nullopt;
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    const auto digit = [&](std::size_t at) {
      return at < bytes.size() && std::isalnum(static_cast<unsigned char>(bytes[at])) != 0;
    };
    if (c == '_') {
      if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<double> parse_float(const Text& text) {
  const auto digits = plain_number(text);
  double value = 0;
  if (!digits || !parse_float_digits(*digits, value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> parse_int(const Text& text, int base) {
  const auto digits = plain_number(text);
  if (!digits) return std::nullopt;
  errno = 0;
  char* end = nullptr;
  std::string plain = *digits;
  const std::size_t sign = plain[0] == '-' || plain[0] == '+' ? 1 : 0;
  const auto mark = plain.size() > sign + 2 && plain[sign] == '0' ? plain[sign + 1] | 0x20 : 0;
  if ((base == 2 && mark == 'b') || (base == 8 && mark == 'o')) plain.erase(sign, 2);
  const long long value = std::strtoll(plain.c_str(), &end, base);
  if (end != plain.c_str() + plain.size() || end == plain.c_str()) return std::nullopt;
  if (errno != 0) fail("a whole number is too large");
  return value;
}

std::optional<std::int64_t> truncated(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::fabs(value) >= 9.2e18) fail("a whole number is too large");
  return static_cast<std::int64_t>(value);
}

void refuse_undefined(const Value& value) {
  if (const auto* undefined = value.get<Undefined>()) fail(*undefined->what);
}

Value filter_int(Call& call) {
  const Value& value = call.at(0);
  refuse_undefined(value);
  const std::int64_t base = call.integer_or(2, 10);
  if (base != 2 && base != 8 && base != 10 && base != 16)
    call.refuse("knows bases 2, 8, 10 and 16");
  std::optional<std::int64_t> out;
  std::int64_t whole = 0;
  if (value.to_integer(whole)) {
    out = whole;
  } else if (const auto* number = value.get<double>()) {
    out = truncated(*number);
  } else if (const Text* text = value.text()) {
    out = parse_int(*text, static_cast<int>(base));
    if (!out) {
      if (const auto number_in_text = parse_float(*text)) out = truncated(*number_in_text);
    }
  }
  if (out) return *out;
  return call.find(1) == nullptr ? Value(std::int64_t{0}) : *call.find(1);
}

Value filter_float(Call& call) {
  const Value& value = call.at(0);
  refuse_undefined(value);
  double number = 0;
  if (value.to_number(number)) return number;
  if (value.text() != nullptr) {
    if (const auto parsed = parse_float(*value.text())) return *parsed;
  }
  return call.find(1) == nullptr ? Value(0.0) : *call.find(1);
}

Value filter_abs(Call& call) {
  const Value& value = call.at(0);
  double number = 0;
  if (value.to_number(number) && number < 0) return negate(value);
  return negate(negate(value));
}

// Rounds half to even on the exact value, as Python does.
double rounded(double value, int precision) {
  if (!std::isfinite(value)) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, -precision);
    return std::nearbyint(value / scale) * scale;
  }
  char buffer[512];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, precision);
  double out = value;
  parse_float_digits(std::string_view(buffer, static_cast<std::size_t>(end.ptr - buffer)), out);
  return out;
}

Value filter_round(Call& call) {
  const std::int64_t precision = call.integer_or(1, 0);
  const std::string method = call.find(2) == nullptr ? "common" : call.text(2).bytes();
  if (precision < -30 || precision > 100) call.refuse("takes a precision from -30 to 100");
  const Value& value = call.at(0);
  double number = 0;
  if (!value.to_number(number)) {
    refuse_undefined(value);
    call.refuse("needs a number");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return std::ceil(number * scale) / scale;
  if (method == "floor") return std::floor(number * scale) / scale;
  if (method != "common") call.refuse("rounds by 'common', 'ceil' or 'floor'");
  if (value.get<double>() == nullptr && precision >= 0) return negate(negate(value));
  return rounded(number, static_cast<int>(precision));
}

Value filter_sum(Call& call) {
  Runtime& runtime = call.runtime();
  Value total = call.find(2) == nullptr ? Value(std::int64_t{0}) : *call.find(2);
  Value items = call.at(0);
  if (call.given(1) != nullptr) {
    Invocation map;
    map.args.push_back(items);
    map.kwargs.emplace_back("attribute", *call.given(1));
    items = runtime.filter("map", std::move(map));
  }
  for (const Value& item : runtime.iterate(items)) {
    if (total.text() != nullptr) call.refuse("cannot add up strings");
    total = arithmetic(runtime, Operator::kAdd, total, item);
  }
  return total;
}

constexpr Builtin kFilters[] = {
    {"int", "value default base", filter_int},
    {"float", "value default", filter_float},
    {"abs", "x", filter_abs},
    {"round", "value precision method", filter_round},
    {"sum", "iterable attribute start", filter_sum},
};

}  // namespace

std::span<const Builtin> number_filters() {
  return kFilters;
}

}  // namespace quire::jinja
