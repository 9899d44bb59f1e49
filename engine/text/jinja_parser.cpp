#include "engine/text/jinja_parser.h"

#include <utility>

#include "engine/text/jinja_parser_base.h"

namespace quire::jinja {
namespace {

using Kind = Stmt::Kind;
using Type = Token::Type;
using Names = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, int depth) : ExpressionParser(std::move(tokens), depth) {}

  Program parse() { return {parse_block({}, "")}; }

 private:
  using StmtPtr = std::unique_ptr<Stmt>;

  StmtPtr make(Kind kind, int line) const {
    auto node = std::make_unique<Stmt>();
    node->kind = kind;
    node->line = line;
    return node;
  }

  // Statements up to a tag whose name is in `ends`; that name is the current token afterwards.
  Block parse_block(Names ends, const std::string& opened_by) {
    const Level level(*this);
    Block block;
    while (true) {
      if (is(Type::kEnd)) {
        if (ends.size() != 0) fail_here("the block '" + opened_by + "' has no end");
        return block;
      }
      const Token token = next();
      if (token.type == Type::kData) {
        StmtPtr node = make(Kind::kData, token.line);
        node->data = Value(Text(token.text, Origin::kTemplate));
        block.push_back(std::move(node));
      } else if (token.type == Type::kVariableBegin) {
        StmtPtr node = make(Kind::kOutput, token.line);
        node->exprs.push_back(parse_tuple(false));
        if (!is(Type::kVariableEnd)) fail_here("expected '}}', found " + shown());
        next();
        block.push_back(std::move(node));
      } else {
        if (is_any_name(ends)) return block;
        block.push_back(parse_statement());
        end_tag();
      }
    }
  }

  Block parse_body(std::string_view end, const std::string& opened_by) {
    body_tag();
    Block block = parse_block({end}, opened_by);
    next();
    return block;
  }

  void end_tag() {
    if (!is(Type::kBlockEnd)) fail_here("expected '%}', found " + shown());
    next();
  }

  // Ends a tag that opens a body; a colon is allowed before it.
  void body_tag() {
    skip_operator(":");
    end_tag();
  }

  StmtPtr parse_statement() {
    const int line = current().line;
    const std::string tag = expect_name();
    if (tag == "if") return parse_if(line);
    if (tag == "for") return parse_for(line);
    if (tag == "set") return parse_set(line);
    if (tag == "macro") return parse_macro(line);
    if (tag == "call") return parse_call_block(line);
    if (tag == "filter") return parse_filter_block(line);
    if (tag == "with") return parse_with(line);
    if (tag == "print") return parse_print(line);
    if (tag == "generation") return parse_generation(line);
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail_at(line, "'" + tag + "' outside of a loop");
      return make(tag == "break" ? Kind::kBreak : Kind::kContinue, line);
    }
    fail_at(line, "the tag '" + tag.substr(0, 40) + "' is not supported here");
  }

  StmtPtr parse_if(int line) {
    StmtPtr node = make(Kind::kIf, line);
    while (true) {
      ExprPtr condition = parse_tuple(false, false);
      body_tag();
      Block body = parse_block({"elif", "else", "endif"}, "if");
      node->branches.push_back({std::move(condition), std::move(body)});
      const std::string word = next().text;
      if (word == "endif") return node;
      if (word == "else") break;
    }
    node->branches.push_back({nullptr, parse_body("endif", "if")});
    return node;
  }

  StmtPtr parse_for(int line) {
    StmtPtr node = make(Kind::kFor, line);
    node->targets.push_back(parse_target(false));
    if (!skip_name("in")) fail_here("expected 'in', found " + shown());
    node->exprs.push_back(parse_tuple(false, false));
    node->exprs.push_back(skip_name("if") ? parse_expression() : nullptr);
    node->recursive = skip_name("recursive");
    body_tag();
    ++loops_;
    node->body = parse_block({"endfor", "else"}, "for");
    --loops_;
    if (next().text == "else") node->otherwise = parse_body("endfor", "for");
    return node;
  }

  Target parse_target(bool with_attribute) {
    const bool parenthesis = skip_operator("(");
    Target target = parse_target_part(with_attribute);
    if (is_operator(",") || parenthesis) {
      Target tuple;
      tuple.is_tuple = is_operator(",");
      tuple.parts.push_back(std::move(target));
      while (skip_operator(",")) {
        if (!is_operator("(") && (!is(Type::kName) || is_name("in"))) break;
        tuple.parts.push_back(parse_target_part(with_attribute));
      }
      if (parenthesis) expect_operator(")");
      return tuple.is_tuple ? std::move(tuple) : std::move(tuple.parts.front());
    }
    return target;
  }

  Target parse_target_part(bool with_attribute) {
    const Level level(*this);
    if (is_operator("(")) return parse_target(with_attribute);
    Target target;
    const int line = current().line;
    target.name = expect_name();
    for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"}) {
      if (target.name == reserved) fail_at(line, "cannot assign to '" + target.name + "'");
    }
    if (with_attribute && skip_operator(".")) target.attribute = expect_name();
    return target;
  }

  StmtPtr parse_set(int line) {
    StmtPtr node = make(Kind::kSet, line);
    node->targets.push_back(parse_target(true));
    if (skip_operator("=")) {
      node->exprs.push_back(parse_tuple(false));
      return node;
    }
    node->kind = Kind::kSetBlock;
    if (node->targets.front().is_tuple) fail_here("a set block assigns to one name");
    node->exprs.push_back(parse_filter_chain(false));
    node->body = parse_body("endset", "set");
    return node;
  }

  void parse_signature(MacroDefinition& macro) {
    expect_operator("(");
    while (!is_operator(")")) {
      if (macro.parameters.size() >= kMaxArguments) fail_here("a macro has too many parameters");
      Parameter parameter;
      parameter.name = expect_name();
      for (const Parameter& other : macro.parameters) {
        if (other.name == parameter.name)
          fail_here("the parameter '" + other.name + "' is doubled");
      }
      if (skip_operator("=")) {
        parameter.fallback = parse_expression();
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
        fail_here("a parameter without default follows one with a default");
      }
      macro.parameters.push_back(std::move(parameter));
      if (is_operator(")")) break;
      expect_operator(",");
    }
    expect_operator(")");
  }

  void parse_macro_body(MacroDefinition& macro, std::string_view end,
                        const std::string& opened_by) {
    const int outer_loops = std::exchange(loops_, 0);
    special_names_.emplace_back();
    macro.body = parse_body(end, opened_by);
    macro.uses_caller = special_names_.back().caller;
    macro.uses_varargs = special_names_.back().varargs;
    macro.uses_kwargs = special_names_.back().kwargs;
    special_names_.pop_back();
    loops_ = outer_loops;
  }

  StmtPtr parse_macro(int line) {
    StmtPtr node = make(Kind::kMacro, line);
    node->macro = std::make_unique<MacroDefinition>();
    node->macro->name = expect_name();
    node->macro->line = line;
    parse_signature(*node->macro);
    parse_macro_body(*node->macro, "endmacro", "macro");
    return node;
  }

  StmtPtr parse_call_block(int line) {
    StmtPtr node = make(Kind::kCallBlock, line);
    node->macro = std::make_unique<MacroDefinition>();
    node->macro->name = "caller";
    node->macro->line = line;
    if (is_operator("(")) parse_signature(*node->macro);
    node->exprs.push_back(parse_expression());
    if (node->exprs.front()->kind != Expr::Kind::kCall) fail_at(line, "'call' needs a macro call");
    parse_macro_body(*node->macro, "endcall", "call");
    return node;
  }

  StmtPtr parse_filter_block(int line) {
    StmtPtr node = make(Kind::kFilterBlock, line);
    node->exprs.push_back(parse_filter_chain(true));
    node->body = parse_body("endfilter", "filter");
    return node;
  }

  StmtPtr parse_with(int line) {
    StmtPtr node = make(Kind::kWith, line);
    while (!is(Type::kBlockEnd)) {
      if (!node->targets.empty()) expect_operator(",");
      node->targets.push_back(parse_target_part(false));
      expect_operator("=");
      node->exprs.push_back(parse_expression());
    }
    node->body = parse_body("endwith", "with");
    return node;
  }

  StmtPtr parse_print(int line) {
    StmtPtr node = make(Kind::kOutput, line);
    while (!is(Type::kBlockEnd)) {
      if (!node->exprs.empty()) expect_operator(",");
      node->exprs.push_back(parse_expression());
    }
    return node;
  }

  // Marks the assistant's own text when training; rendering only passes it on.
  StmtPtr parse_generation(int line) {
    StmtPtr node = make(Kind::kScope, line);
    const int outer_loops = std::exchange(loops_, 0);
    node->body = parse_body("endgeneration", "generation");
    loops_ = outer_loops;
    return node;
  }

  int loops_ = 0;
};

}  // namespace

Program parse_template(const std::string& source, int max_depth) {
  return Parser(tokenize(source), max_depth).parse();
}

}  // namespace quire::jinja
