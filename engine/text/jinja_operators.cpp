#include "engine/text/jinja_operators.h"

#include <cmath>

#include "engine/text/jinja_format.h"

namespace quire::jinja {
namespace {

[[noreturn]] void refuse(Operator op, const Value& a, const Value& b) {
  static constexpr std::string_view kSpelled[] = {"+", "-", "*", "/", "//", "%", "**"};
  if (const auto* undefined = a.get<Undefined>()) fail(*undefined->what);
  if (const auto* undefined = b.get<Undefined>()) fail(*undefined->what);
  fail("'" + std::string(kSpelled[static_cast<int>(op)]) + "' cannot take a " +
       std::string(type_name(a)) + " and a " + std::string(type_name(b)));
}

[[noreturn]] void too_large() {
  fail("a whole number is too large");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) {
    std::int64_t out = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) too_large();
    return out;
  }
  const std::int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) too_large();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return out;
}

double float_modulo(double a, double b) {
  if (b == 0) fail("division by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("zero cannot be raised to a negative power");
  const double out = std::pow(base, exponent);
  if (std::isnan(out) && !std::isnan(base) && !std::isnan(exponent)) {
    fail("a power of a negative number is not real");
  }
  if (std::isinf(out) && !std::isinf(base) && !std::isinf(exponent)) fail("a number is too large");
  return out;
}

Value integer_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &out)) too_large();
      return out;
    case Operator::kSub:
      if (__builtin_sub_overflow(a, b, &out)) too_large();
      return out;
    case Operator::kMul:
      if (__builtin_mul_overflow(a, b, &out)) too_large();
      return out;
    case Operator::kDiv:
      if (b == 0) fail("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case Operator::kFloorDiv:
      return floor_divide(a, b);
    case Operator::kMod:
      return modulo(a, b);
    default:
      if (b < 0) return float_power(static_cast<double>(a), static_cast<double>(b));
      return power(a, b);
  }
}

Value float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSub:
      return a - b;
    case Operator::kMul:
      return a * b;
    case Operator::kDiv:
      if (b == 0) fail("division by zero");
      return a / b;
    case Operator::kFloorDiv:
      if (b == 0) fail("division by zero");
      return std::floor(a / b);
    case Operator::kMod:
      return float_modulo(a, b);
    default:
      return float_power(a, b);
  }
}

Value add_sequences(Runtime& runtime, const Value& a, const Value& b) {
  if (a.text() != nullptr && b.text() != nullptr) {
    runtime.check_size(a.text()->size() + b.text()->size());
    Text out = *a.text();
    out.append(*b.text());
    return runtime.text(std::move(out));
  }
  const List* left = a.list();
  const List* right = b.list();
  if (left == nullptr || right == nullptr || left->form != right->form ||
      left->form == List::Form::kIterator) {
    refuse(Operator::kAdd, a, b);
  }
  runtime.charge(static_cast<std::int64_t>(left->items.size() + right->items.size()));
  std::vector<Value> items = left->items;
  items.insert(items.end(), right->items.begin(), right->items.end());
  return runtime.list(std::move(items), left->form);
}

Value repeat(Runtime& runtime, const Value& sequence, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  if (const Text* text = sequence.text()) {
    if (text->empty() || times == 0) return Text();
    if (times > runtime.max_text_bytes() / text->size())
      runtime.check_size(static_cast<std::size_t>(-1));
    runtime.charge(count / 16);
    Text out;
    for (std::size_t i = 0; i < times; ++i) out.append(*text);
    return runtime.text(std::move(out));
  }
  const List& list = *sequence.list();
  std::vector<Value> items;
  for (std::size_t i = 0; i < times && !list.items.empty(); ++i) {
    runtime.charge(static_cast<std::int64_t>(list.items.size()));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return runtime.list(std::move(items), list.form);
}

bool repeatable(const Value& value) {
  return value.text() != nullptr ||
         (value.list() != nullptr && value.list()->form != List::Form::kIterator);
}

}  // namespace

Value arithmetic(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  std::int64_t left = 0, right = 0;
  const bool left_whole = a.to_integer(left), right_whole = b.to_integer(right);
  if (left_whole && right_whole) return integer_arithmetic(op, left, right);
  double left_float = 0, right_float = 0;
  if (a.to_number(left_float) && b.to_number(right_float)) {
    return float_arithmetic(op, left_float, right_float);
  }
  if (op == Operator::kAdd) return add_sequences(runtime, a, b);
  if (op == Operator::kMul && repeatable(a) && right_whole) return repeat(runtime, a, right);
  if (op == Operator::kMul && repeatable(b) && left_whole) return repeat(runtime, b, left);
  if (op == Operator::kMod && a.text() != nullptr) {
    return runtime.text(percent_format(runtime, *a.text(), b));
  }
  refuse(op, a, b);
}

bool comparison(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  switch (op) {
    case Operator::kEq:
      return runtime.equal(a, b);
    case Operator::kNe:
      return !runtime.equal(a, b);
    case Operator::kLt:
      return runtime.compare(a, b) < 0;
    case Operator::kLe:
      return runtime.compare(a, b) <= 0;
    case Operator::kGt:
      return runtime.compare(a, b) > 0;
    case Operator::kGe:
      return runtime.compare(a, b) >= 0;
    case Operator::kIn:
      return runtime.contains(b, a);
    default:
      return !runtime.contains(b, a);
  }
}

Value negate(const Value& value) {
  std::int64_t whole = 0, out = 0;
  double number = 0;
  if (value.to_integer(whole)) {
    if (__builtin_sub_overflow(std::int64_t{0}, whole, &out)) too_large();
    return out;
  }
  if (value.to_number(number)) return -number;
  if (const auto* undefined = value.get<Undefined>()) fail(*undefined->what);
  fail("'-' cannot take a " + std::string(type_name(value)));
}

}  // namespace quire::jinja
