#include <algorithm>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_operators.h"

// The half of the interpreter that computes expressions.
namespace quire::jinja {

using Kind = Expr::Kind;

Value Interpreter::evaluate(const Expr& expr) {
  const Level level(*this);
  charge(1);
  line_ = expr.line;
  switch (expr.kind) {
    case Kind::kConstant:
      return expr.constant;
    case Kind::kName:
      return evaluate_name(expr);
    case Kind::kList:
    case Kind::kTuple:
      return evaluate_list(expr);
    case Kind::kDict:
      return evaluate_dict(expr);
    case Kind::kAttribute:
      return attribute(evaluate(*expr.children[0]), expr.name);
    case Kind::kSubscript:
      return evaluate_subscript(expr);
    case Kind::kSlice:
      fail("a slice is not supported here");
    case Kind::kCall:
      return evaluate_call(expr, nullptr);
    case Kind::kFilter:
      return evaluate_filter(expr, nullptr);
    case Kind::kTest:
      return evaluate_test(expr);
    case Kind::kChain:
      return evaluate_chain(expr);
    case Kind::kCompare:
      return evaluate_compare(expr);
    case Kind::kConcat:
      return evaluate_concat(expr);
    case Kind::kAnd:
    case Kind::kOr:
      return evaluate_junction(expr);
    case Kind::kNot:
      return !truthy(evaluate(*expr.children[0]));
    case Kind::kNegate:
      return negate(evaluate(*expr.children[0]));
    case Kind::kPlus:
      return negate(negate(evaluate(*expr.children[0])));
    case Kind::kConditional:
      return evaluate_conditional(expr);
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& expr) {
  if (const Value* value = look_up(expr.name)) return *value;
  if (const Builtin* function = find_function(expr.name)) {
    Callable callable;
    callable.builtin = function;
    return std::make_shared<const Callable>(std::move(callable));
  }
  return Value::undefined("'" + expr.name + "' is undefined");
}

Value Interpreter::evaluate_list(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& child : expr.children) items.push_back(evaluate(*child));
  return list(std::move(items), expr.kind == Kind::kTuple ? List::Form::kTuple : List::Form::kList);
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    Value key = evaluate(*expr.children[i]);
    if (key.dict() != nullptr || (key.list() != nullptr && key.list()->form == List::Form::kList)) {
      fail("a " + std::string(type_name(key)) + " cannot be a dict's key");
    }
    if (key.text() == nullptr) charge(static_cast<std::int64_t>(i));
    dict.set(std::move(key), evaluate(*expr.children[i + 1]));
  }
  return make_dict(std::move(dict));
}

Value Interpreter::evaluate_subscript(const Expr& expr) {
  const Value object = evaluate(*expr.children[0]);
  const Expr& index = *expr.children[1];
  if (index.kind != Kind::kSlice) return item(object, evaluate(index));
  const auto part = [this, &index](std::size_t i) {
    return index.children[i] == nullptr ? Value() : evaluate(*index.children[i]);
  };
  const Value start = part(0), stop = part(1), step = part(2);
  return slice(object, start, stop, step);
}

Invocation Interpreter::evaluate_arguments(const Expr& expr, const Value* subject) {
  Invocation invocation;
  if (subject != nullptr) invocation.args.push_back(*subject);
  const std::size_t spreads = std::size_t{expr.has_star} + std::size_t{expr.has_double_star};
  const std::size_t first_keyword = expr.children.size() - spreads - expr.keywords.size();
  for (std::size_t i = 1; i < first_keyword; ++i) {
    invocation.args.push_back(evaluate(*expr.children[i]));
  }
  for (std::size_t i = 0; i < expr.keywords.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (expr.keywords[j] == expr.keywords[i]) fail("'" + expr.keywords[i] + "' is given twice");
    }
    invocation.kwargs.emplace_back(expr.keywords[i], evaluate(*expr.children[first_keyword + i]));
  }
  if (spreads > 0) spread(expr, invocation);
  return invocation;
}

void Interpreter::spread(const Expr& expr, Invocation& invocation) {
  std::size_t next = expr.children.size() - (expr.has_double_star ? 1 : 0);
  if (expr.has_star) {
    for (Value& value : iterate(evaluate(*expr.children[next - 1]))) {
      invocation.args.push_back(std::move(value));
    }
  }
  if (!expr.has_double_star) return;
  const Value named = evaluate(*expr.children[next]);
  if (named.dict() == nullptr) fail("** needs a dict");
  for (const auto& [key, value] : named.dict()->entries) {
    charge(static_cast<std::int64_t>(1 + invocation.kwargs.size()));
    if (key.text() == nullptr) fail("** needs a dict with string keys");
    const std::string& name = key.text()->bytes();
    for (const auto& given : invocation.kwargs) {
      if (given.first == name) fail("'" + name + "' is given twice");
    }
    invocation.kwargs.emplace_back(name, value);
  }
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.children[0]);
  Invocation invocation = evaluate_arguments(expr, nullptr);
  if (caller != nullptr) invocation.kwargs.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, std::move(invocation));
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value* innermost) {
  const Level level(*this);
  const Expr* subject = expr.children[0].get();
  Value value;
  if (subject == nullptr) {
    value = *innermost;
  } else if (innermost != nullptr) {
    value = evaluate_filter(*subject, innermost);
  } else {
    value = evaluate(*subject);
  }
  Invocation invocation = evaluate_arguments(expr, &value);
  line_ = expr.line;
  return filter(expr.name, std::move(invocation));
}

Value Interpreter::evaluate_test(const Expr& expr) {
  const Value subject = evaluate(*expr.children[0]);
  Invocation invocation = evaluate_arguments(expr, &subject);
  line_ = expr.line;
  return test(expr.name, std::move(invocation));
}

Value Interpreter::evaluate_chain(const Expr& expr) {
  Value value = evaluate(*expr.children[0]);
  // Python's ** groups from the left here, as jinja2's parser does.
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    const Value right = evaluate(*expr.children[i + 1]);
    charge(1);
    value = arithmetic(*this, expr.operators[i], value, right);
  }
  return value;
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    if (!comparison(*this, expr.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  Text out;
  for (const ExprPtr& child : expr.children) {
    const Text part = str(evaluate(*child));
    check_size(out.size() + part.size());
    out.append(part);
  }
  return text(std::move(out));
}

Value Interpreter::evaluate_junction(const Expr& expr) {
  const bool stops_at = expr.kind == Kind::kOr;
  Value value;
  for (const ExprPtr& child : expr.children) {
    value = evaluate(*child);
    if (truthy(value) == stops_at) return value;
  }
  return value;
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truthy(evaluate(*expr.children[0]))) return evaluate(*expr.children[1]);
  if (expr.children[2] != nullptr) return evaluate(*expr.children[2]);
  return Value::undefined("a conditional without 'else' had no value");
}

}  // namespace quire::jinja
