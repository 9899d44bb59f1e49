#include <cerrno>
#include <cstdlib>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/text/jinja_parser_base.h"

namespace quire::jinja {
namespace {

using Kind = Expr::Kind;
using Type = Token::Type;

struct Spelling {
  std::string_view text;
  Operator op;
};
constexpr std::array<Spelling, 6> kComparisons = {{{"==", Operator::kEq},
                                                   {"!=", Operator::kNe},
                                                   {"<=", Operator::kLe},
                                                   {">=", Operator::kGe},
                                                   {"<", Operator::kLt},
                                                   {">", Operator::kGt}}};
// Arithmetic by precedence, loosest first; `~` binds between the first two levels.
constexpr std::array<Spelling, 7> kArithmetic = {{{"+", Operator::kAdd},
                                                  {"-", Operator::kSub},
                                                  {"*", Operator::kMul},
                                                  {"/", Operator::kDiv},
                                                  {"//", Operator::kFloorDiv},
                                                  {"%", Operator::kMod},
                                                  {"**", Operator::kPow}}};
constexpr std::array<std::pair<std::size_t, std::size_t>, 3> kLevels = {{{0, 2}, {2, 6}, {6, 7}}};

}  // namespace

ExprPtr ExpressionParser::make(Kind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr ExpressionParser::finish(ExprPtr node) const {
  for (const ExprPtr& child : node->children) {
    if (child != nullptr) node->height = std::max(node->height, child->height + 1);
  }
  if (node->height > max_depth()) fail_at(node->line, "an expression is nested too deeply");
  return node;
}

ExprPtr ExpressionParser::parse_expression(bool conditional) {
  const Level level(*this);
  ExprPtr value = parse_junction(Kind::kOr);
  while (conditional && is_name("if")) {
    ExprPtr node = make(Kind::kConditional, next().line);
    ExprPtr condition = parse_junction(Kind::kOr);
    ExprPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
    node->children.push_back(std::move(condition));
    node->children.push_back(std::move(value));
    node->children.push_back(std::move(otherwise));
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr ExpressionParser::parse_junction(Kind kind) {
  const auto operand = [&] { return kind == Kind::kOr ? parse_junction(Kind::kAnd) : parse_not(); };
  const std::string_view word = kind == Kind::kOr ? "or" : "and";
  ExprPtr first = operand();
  if (!is_name(word)) return first;
  ExprPtr node = make(kind, first->line);
  node->children.push_back(std::move(first));
  while (skip_name(word)) node->children.push_back(operand());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Level level(*this);
  ExprPtr node = make(Kind::kNot, next().line);
  node->children.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_chain(0);
  ExprPtr node = make(Kind::kCompare, first->line);
  node->children.push_back(std::move(first));
  while (true) {
    std::optional<Operator> op;
    for (const Spelling& spelling : kComparisons) {
      if (is_operator(spelling.text)) op = spelling.op;
    }
    if (is_name("in")) op = Operator::kIn;
    if (is_name("not") && peek().type == Type::kName && peek().text == "in") {
      op = Operator::kNotIn;
      next();
    }
    if (!op) break;
    next();
    node->operators.push_back(*op);
    node->children.push_back(parse_chain(0));
  }
  if (node->operators.empty()) return std::move(node->children.front());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_chain(int level) {
  const auto operand = [&] {
    if (level == 0) return parse_concat();
    return level == 1 ? parse_chain(2) : parse_unary(true);
  };
  const auto [begin, end] = kLevels[static_cast<std::size_t>(level)];
  ExprPtr first = operand();
  ExprPtr node = make(Kind::kChain, first->line);
  node->children.push_back(std::move(first));
  while (is(Type::kOperator)) {
    const auto found = std::find_if(kArithmetic.begin() + begin, kArithmetic.begin() + end,
                                    [this](const Spelling& s) { return is_operator(s.text); });
    if (found == kArithmetic.begin() + end) break;
    next();
    node->operators.push_back(found->op);
    node->children.push_back(operand());
  }
  if (node->operators.empty()) return std::move(node->children.front());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_chain(1);
  if (!is_operator("~")) return first;
  ExprPtr node = make(Kind::kConcat, first->line);
  node->children.push_back(std::move(first));
  while (skip_operator("~")) node->children.push_back(parse_chain(1));
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  const Level level(*this);
  ExprPtr node;
  if (is_operator("-") || is_operator("+")) {
    const Token sign = next();
    node = make(sign.text == "-" ? Kind::kNegate : Kind::kPlus, sign.line);
    node->children.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  if (is(Type::kName)) return parse_name();
  if (is(Type::kString)) return parse_string();
  if (is(Type::kInteger) || is(Type::kFloat)) return parse_number();
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  if (!skip_operator("(")) fail_here("expected an expression, found " + shown());
  ExprPtr node = parse_tuple(true);
  expect_operator(")");
  return node;
}

ExprPtr ExpressionParser::parse_name() {
  const Token token = next();
  const std::string& name = token.text;
  ExprPtr node = make(Kind::kConstant, token.line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->constant = Value(name == "true" || name == "True");
  } else if (name != "none" && name != "None") {
    node->kind = Kind::kName;
    node->name = name;
    for (SpecialNames& names : special_names_) {
      names.caller |= name == "caller";
      names.varargs |= name == "varargs";
      names.kwargs |= name == "kwargs";
    }
  }
  return node;
}

ExprPtr ExpressionParser::parse_string() {
  ExprPtr node = make(Kind::kConstant, current().line);
  std::string text;
  while (is(Type::kString)) text += next().text;
  node->constant = Value(Text(std::move(text), Origin::kTemplate));
  return node;
}

ExprPtr ExpressionParser::parse_number() {
  const Token token = next();
  std::string digits = token.text;
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  ExprPtr node = make(Kind::kConstant, token.line);
  if (token.type == Type::kFloat) {
    double value = 0;
    if (!parse_float_digits(digits, value)) fail_at(token.line, "a number is malformed");
    node->constant = Value(value);
    return node;
  }
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0') {
    const char mark = static_cast<char>(digits[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) digits.erase(0, 2);
    if (base == 10 && digits.find_first_not_of('0') != digits.npos) {
      fail_at(token.line, "a number must not begin with 0");
    }
  }
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(digits.c_str(), &end, base);
  if (errno != 0) fail_at(token.line, "a number is too large");
  if (digits.empty() || *end != '\0') fail_at(token.line, "a number is malformed");
  node->constant = Value(static_cast<std::int64_t>(value));
  return node;
}

bool ExpressionParser::at_tuple_end() const {
  return is(Type::kVariableEnd) || is(Type::kBlockEnd) || is_operator(")") || is(Type::kEnd);
}

ExprPtr ExpressionParser::parse_tuple(bool explicit_parentheses, bool conditional) {
  ExprPtr node = make(Kind::kTuple, current().line);
  bool has_comma = false;
  while (!at_tuple_end()) {
    node->children.push_back(parse_expression(conditional));
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma) {
    if (node->children.size() == 1) return std::move(node->children.front());
    if (!explicit_parentheses) fail_here("expected an expression, found " + shown());
  }
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr node = make(Kind::kList, next().line);
  while (!is_operator("]")) {
    node->children.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("]");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr node = make(Kind::kDict, next().line);
  while (!is_operator("}")) {
    node->children.push_back(parse_expression());
    expect_operator(":");
    node->children.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (is_operator(".") || is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr node) {
  while (true) {
    if (skip_operator("|")) {
      node = parse_filter(std::move(node));
    } else if (skip_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const Token token = next();
  if (token.text == "." && is(Type::kName)) {
    ExprPtr node = make(Kind::kAttribute, token.line);
    node->name = next().text;
    node->children.push_back(std::move(object));
    return finish(std::move(node));
  }
  ExprPtr node = make(Kind::kSubscript, token.line);
  node->children.push_back(std::move(object));
  if (token.text == ".") {
    if (!is(Type::kInteger)) fail_here("expected a name after '.', found " + shown());
    node->children.push_back(parse_number());
    return finish(std::move(node));
  }
  ExprPtr index = parse_subscribed();
  if (is_operator(",")) {
    ExprPtr tuple = make(Kind::kTuple, token.line);
    if (index->kind == Kind::kSlice) fail_at(token.line, "a slice in a tuple is not supported");
    tuple->children.push_back(std::move(index));
    while (skip_operator(",")) tuple->children.push_back(parse_expression());
    index = finish(std::move(tuple));
  }
  expect_operator("]");
  node->children.push_back(std::move(index));
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_subscribed() {
  const int line = current().line;
  if (is_operator(":")) return parse_slice(nullptr, line);
  ExprPtr node = parse_expression();
  return is_operator(":") ? parse_slice(std::move(node), line) : std::move(node);
}

ExprPtr ExpressionParser::parse_slice(ExprPtr start, int line) {
  const auto part = [this]() -> ExprPtr {
    if (is_operator(":") || is_operator("]") || is_operator(",")) return nullptr;
    return parse_expression();
  };
  ExprPtr node = make(Kind::kSlice, line);
  node->children.push_back(std::move(start));
  expect_operator(":");
  node->children.push_back(part());
  node->children.push_back(skip_operator(":") ? part() : nullptr);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr node = make(Kind::kCall, current().line);
  node->children.push_back(std::move(callee));
  parse_arguments(*node);
  return finish(std::move(node));
}

void ExpressionParser::parse_arguments(Expr& node) {
  expect_operator("(");
  ExprPtr star, double_star;
  std::vector<ExprPtr> named;
  while (!is_operator(")")) {
    if (node.children.size() + named.size() > kMaxArguments)
      fail_here("a call has too many arguments");
    if (double_star != nullptr) fail_here("an argument follows **");
    if (is_operator("*") || is_operator("**")) {
      ExprPtr& target = next().text == "*" ? star : double_star;
      if (target != nullptr) fail_here("a second * argument");
      target = parse_expression();
    } else if (is(Type::kName) && peek().type == Type::kOperator && peek().text == "=") {
      node.keywords.push_back(next().text);
      next();
      named.push_back(parse_expression());
    } else {
      if (star != nullptr || !named.empty()) fail_here("a positional argument follows a named one");
      node.children.push_back(parse_expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
  std::move(named.begin(), named.end(), std::back_inserter(node.children));
  node.has_star = star != nullptr;
  node.has_double_star = double_star != nullptr;
  if (node.has_star) node.children.push_back(std::move(star));
  if (node.has_double_star) node.children.push_back(std::move(double_star));
}

ExprPtr ExpressionParser::parse_filter(ExprPtr subject) {
  ExprPtr node = make(Kind::kFilter, current().line);
  node->name = expect_name();
  while (skip_operator(".")) node->name += "." + expect_name();
  node->children.push_back(std::move(subject));
  if (is_operator("(")) parse_arguments(*node);
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_filter_chain(bool first_without_pipe) {
  ExprPtr node;
  if (first_without_pipe) node = parse_filter(nullptr);
  while (skip_operator("|")) node = parse_filter(std::move(node));
  return node;
}

ExprPtr ExpressionParser::parse_test(ExprPtr subject) {
  const int line = current().line;
  const bool negated = skip_name("not");
  ExprPtr node = make(Kind::kTest, line);
  node->name = expect_name();
  while (skip_operator(".")) node->name += "." + expect_name();
  node->children.push_back(std::move(subject));
  if (is_operator("(")) {
    parse_arguments(*node);
  } else if (is(Type::kString) || is(Type::kInteger) || is(Type::kFloat) || is_operator("[") ||
             is_operator("{") || (is(Type::kName) && !is_any_name({"else", "or", "and"}))) {
    if (is_name("is")) fail_here("tests cannot be chained with 'is'");
    node->children.push_back(parse_postfix(parse_primary()));
  }
  node = finish(std::move(node));
  if (!negated) return node;
  ExprPtr negation = make(Kind::kNot, line);
  negation->children.push_back(std::move(node));
  return finish(std::move(negation));
}

}  // namespace quire::jinja
