#include <algorithm>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_operators.h"
#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

Value test_defined(Call& call) {
  return !call.at(0).is_undefined();
}
Value test_undefined(Call& call) {
  return call.at(0).is_undefined();
}
Value test_none(Call& call) {
  return call.at(0).is_none();
}
Value test_string(Call& call) {
  return call.at(0).text() != nullptr;
}
Value test_mapping(Call& call) {
  return call.at(0).dict() != nullptr;
}
Value test_boolean(Call& call) {
  return call.at(0).get<bool>() != nullptr;
}
Value test_integer(Call& call) {
  return call.at(0).integer() != nullptr;
}
Value test_float(Call& call) {
  return call.at(0).get<double>() != nullptr;
}
Value test_callable(Call& call) {
  return call.at(0).callable() != nullptr || call.at(0).loop();
}

Value test_true(Call& call) {
  const bool* value = call.at(0).get<bool>();
  return value != nullptr && *value;
}

Value test_false(Call& call) {
  const bool* value = call.at(0).get<bool>();
  return value != nullptr && !*value;
}

Value test_number(Call& call) {
  double number = 0;
  return call.at(0).to_number(number);
}

Value test_iterable(Call& call) {
  const Value& value = call.at(0);
  return value.is_undefined() || value.text() || value.list() || value.dict() || value.loop();
}

Value test_sequence(Call& call) {
  const Value& value = call.at(0);
  const List* list = value.list();
  return value.is_undefined() || value.text() || value.dict() ||
         (list != nullptr && list->form != List::Form::kIterator);
}

std::int64_t remainder_of(Call& call, std::int64_t divisor) {
  const Value rest = arithmetic(call.runtime(), Operator::kMod, call.at(0), Value(divisor));
  if (rest.integer() == nullptr) call.refuse("needs a whole number");
  return *rest.integer();
}

Value test_odd(Call& call) {
  return remainder_of(call, 2) == 1;
}
Value test_even(Call& call) {
  return remainder_of(call, 2) == 0;
}
Value test_divisibleby(Call& call) {
  return remainder_of(call, call.integer(1)) == 0;
}

template <Operator kOp>
Value test_comparison(Call& call) {
  return comparison(call.runtime(), kOp, call.at(0), call.at(1));
}

Value test_sameas(Call& call) {
  const Value &a = call.at(0), &b = call.at(1);
  if (a.list() != nullptr || a.dict() != nullptr)
    return a.list() == b.list() && a.dict() == b.dict();
  return type_name(a) == type_name(b) && call.runtime().equal(a, b);
}

Value has_case(Call& call, bool (*wanted)(int), bool (*other)(int)) {
  const Text text = call.runtime().str(call.at(0));
  bool any = false;
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text.bytes(), i);
    if (other(c.code)) return false;
    any |= wanted(c.code);
    i += c.length;
  }
  return any;
}

Value test_lower(Call& call) {
  return has_case(call, is_lower, is_upper);
}
Value test_upper(Call& call) {
  return has_case(call, is_upper, is_lower);
}

Value test_filter(Call& call) {
  return find_filter(call.text(0).bytes()) != nullptr;
}
Value test_test(Call& call) {
  return find_test(call.text(0).bytes()) != nullptr;
}

constexpr Builtin kTests[] = {
    {"defined", "value", test_defined},
    {"undefined", "value", test_undefined},
    {"none", "value", test_none},
    {"string", "value", test_string},
    {"mapping", "value", test_mapping},
    {"boolean", "value", test_boolean},
    {"integer", "value", test_integer},
    {"float", "value", test_float},
    {"number", "value", test_number},
    {"callable", "value", test_callable},
    {"true", "value", test_true},
    {"false", "value", test_false},
    {"iterable", "value", test_iterable},
    {"sequence", "value", test_sequence},
    {"odd", "value", test_odd},
    {"even", "value", test_even},
    {"divisibleby", "value num", test_divisibleby},
    {"eq", "value other", test_comparison<Operator::kEq>},
    {"equalto", "value other", test_comparison<Operator::kEq>},
    {"==", "value other", test_comparison<Operator::kEq>},
    {"ne", "value other", test_comparison<Operator::kNe>},
    {"!=", "value other", test_comparison<Operator::kNe>},
    {"lt", "value other", test_comparison<Operator::kLt>},
    {"lessthan", "value other", test_comparison<Operator::kLt>},
    {"<", "value other", test_comparison<Operator::kLt>},
    {"le", "value other", test_comparison<Operator::kLe>},
    {"<=", "value other", test_comparison<Operator::kLe>},
    {"gt", "value other", test_comparison<Operator::kGt>},
    {"greaterthan", "value other", test_comparison<Operator::kGt>},
    {">", "value other", test_comparison<Operator::kGt>},
    {"ge", "value other", test_comparison<Operator::kGe>},
    {">=", "value other", test_comparison<Operator::kGe>},
    {"in", "value seq", test_comparison<Operator::kIn>},
    {"sameas", "value other", test_sameas},
    {"lower", "value", test_lower},
    {"upper", "value", test_upper},
    {"filter", "value", test_filter},
    {"test", "value", test_test},
};

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const Builtin& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Builtin* find_test(std::string_view name) {
  return find_in(kTests, name);
}

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), sequence_filters(), number_filters()}) {
    if (const Builtin* found = find_in(table, name)) return found;
  }
  return nullptr;
}

}  // namespace quire::jinja
