#pragma once

#include <string>
#include <vector>

namespace quire::jinja {

struct Token {
  enum class Type {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Type type;
  std::string text;  // kString: decoded
  int line = 1;
};

// Splits a template as jinja2 does with trim_blocks and lstrip_blocks on: line ends become \n, one
// final line end is dropped, the white space control of every tag is applied, comments and the tags
// of raw blocks are gone. Ends with a kEnd token. Throws Failure.
std::vector<Token> tokenize(const std::string& source);

}  // namespace quire::jinja
