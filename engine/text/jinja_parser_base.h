#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/jinja_ast.h"
#include "engine/text/jinja_lexer.h"

namespace quire::jinja {

// The token stream and the nesting guard that both halves of the parser share.
class ParserBase {
 protected:
  ParserBase(std::vector<Token> tokens, int max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  // Counts one level of nesting while it lives.
  class Level {
   public:
    explicit Level(ParserBase& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ParserBase& parser_;
  };

  const Token& current() const { return tokens_[position_]; }
  const Token& peek() const;
  Token next();
  bool is(Token::Type type) const { return current().type == type; }
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view text) const;
  bool is_any_name(std::initializer_list<std::string_view> names) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name();
  [[noreturn]] void fail_at(int line, const std::string& what) const;
  [[noreturn]] void fail_here(const std::string& what) const { fail_at(current().line, what); }
  std::string shown() const;  // the current token, for a message

  int max_depth() const { return max_depth_; }

  // Of one call or macro; names are compared with each other.
  static constexpr std::size_t kMaxArguments = 256;

 private:
  std::vector<Token> tokens_;  // ends with kEnd, which is never passed
  std::size_t position_ = 0;
  int depth_ = 0;
  int max_depth_;
};

// Expressions, with the precedence of jinja2 (which is nearly Python's).
class ExpressionParser : protected ParserBase {
 protected:
  using ParserBase::ParserBase;

  // Without `conditional`, an `if` after the expression is left for the caller.
  ExprPtr parse_expression(bool conditional = true);
  // An expression, or a tuple, which needs no parentheses.
  ExprPtr parse_tuple(bool explicit_parentheses, bool conditional = true);
  ExprPtr parse_primary();
  // The filter chain of {% filter %} and {% set x | f %}; its innermost subject is null.
  ExprPtr parse_filter_chain(bool first_without_pipe);

  // Which of a macro's special names its body mentions.
  struct SpecialNames {
    bool caller = false, varargs = false, kwargs = false;
  };
  std::vector<SpecialNames> special_names_;

 private:
  ExprPtr make(Expr::Kind kind, int line) const;
  ExprPtr finish(ExprPtr node) const;
  ExprPtr parse_junction(Expr::Kind kind);
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_chain(int level);
  ExprPtr parse_concat();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscribed();
  ExprPtr parse_slice(ExprPtr start, int line);
  ExprPtr parse_call(ExprPtr node);
  void parse_arguments(Expr& node);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_string();
  ExprPtr parse_number();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  bool at_tuple_end() const;
};

}  // namespace quire::jinja
