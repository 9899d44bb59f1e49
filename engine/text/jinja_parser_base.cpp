#include "engine/text/jinja_parser_base.h"

#include <algorithm>

namespace quire::jinja {

using Type = Token::Type;

ParserBase::Level::Level(ParserBase& parser) : parser_(parser) {
  if (parser_.depth_ >= parser_.max_depth_) parser_.fail_here("the template is nested too deeply");
  ++parser_.depth_;
}

const Token& ParserBase::peek() const {
  return tokens_[std::min(position_ + 1, tokens_.size() - 1)];
}

Token ParserBase::next() {
  Token token = current();
  if (token.type != Type::kEnd) ++position_;
  return token;
}

bool ParserBase::is_operator(std::string_view text) const {
  return is(Type::kOperator) && current().text == text;
}

bool ParserBase::is_name(std::string_view text) const {
  return is(Type::kName) && current().text == text;
}

bool ParserBase::is_any_name(std::initializer_list<std::string_view> names) const {
  return std::any_of(names.begin(), names.end(), [this](auto name) { return is_name(name); });
}

bool ParserBase::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  next();
  return true;
}

bool ParserBase::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  next();
  return true;
}

void ParserBase::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail_here("expected '" + std::string(text) + "', found " + shown());
}

std::string ParserBase::expect_name() {
  if (!is(Type::kName)) fail_here("expected a name, found " + shown());
  return next().text;
}

void ParserBase::fail_at(int line, const std::string& what) const {
  fail_in_line(line, what);
}

std::string ParserBase::shown() const {
  switch (current().type) {
    case Type::kData:
      return "text";
    case Type::kVariableBegin:
      return "'{{'";
    case Type::kVariableEnd:
      return "'}}'";
    case Type::kBlockBegin:
      return "'{%'";
    case Type::kBlockEnd:
      return "'%}'";
    case Type::kEnd:
      return "the end of the template";
    default:
      return "'" + current().text.substr(0, 40) + "'";
  }
}

}  // namespace quire::jinja
