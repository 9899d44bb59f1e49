#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/jinja_value.h"

namespace quire::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Block = std::vector<std::unique_ptr<Stmt>>;

enum class Operator {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

// One node of an expression. What `children` hold, by kind:
//   kList, kTuple, kConcat   the elements          kDict         key, value, key, value, ...
//   kAttribute               object                kSubscript    object, index
//   kSlice                   start, stop, step (null: absent); only as a subscript's index
//   kCall, kFilter, kTest    callee or subject, positional arguments, keyword arguments (as many as
//                            `keywords`), *argument and **argument if flagged
//   kChain                   operands of `operators`, applied from the left (arithmetic)
//   kCompare                 operands of `operators`, chained as in Python
//   kAnd, kOr                operands              kConditional  condition, then, else (null:
//   absent) kNot, kNegate, kPlus     operand
struct Expr {
  enum class Kind {
    kConstant,
    kName,
    kList,
    kTuple,
    kDict,
    kAttribute,
    kSubscript,
    kSlice,
    kCall,
    kFilter,
    kTest,
    kChain,
    kCompare,
    kConcat,
    kAnd,
    kOr,
    kNot,
    kNegate,
    kPlus,
    kConditional
  };
  Kind kind;
  int line = 1;
  int height = 1;    // longest path below, bounded by the parser
  std::string name;  // of a kName, kAttribute, kFilter or kTest
  Value constant;
  std::vector<ExprPtr> children;
  std::vector<Operator> operators;
  std::vector<std::string> keywords;
  bool has_star = false, has_double_star = false;
};

// What {% set %} and {% for %} assign to: a name, namespace.attribute, or several of them.
struct Target {
  std::string name, attribute;  // `attribute` is empty for a plain name
  std::vector<Target> parts;    // when not empty, the value is unpacked into these
  bool is_tuple = false;
};

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null: none
};

// The signature and body of {% macro %} and {% call %}.
struct MacroDefinition {
  std::string name;
  int line = 1;
  std::vector<Parameter> parameters;
  Block body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
  enum class Kind {
    kData,
    kOutput,
    kIf,
    kFor,
    kSet,
    kSetBlock,
    kMacro,
    kCallBlock,
    kFilterBlock,
    kWith,
    kScope,
    kBreak,
    kContinue
  };
  struct Branch {
    ExprPtr condition;  // null: else
    Block body;
  };
  Kind kind;
  int line = 1;
  Value data;                    // kData: the text
  std::vector<ExprPtr> exprs;    // kOutput; kSet: value; kFor: iterable, filter (may be null);
                                 // kCallBlock: the call; kFilterBlock, kSetBlock: the filter chain
                                 // (may be null), whose innermost subject is null; kWith: values
  std::vector<Branch> branches;  // kIf
  std::vector<Target> targets;   // kFor, kSet, kSetBlock: one; kWith: one per value
  Block body, otherwise;         // `otherwise`: a loop's else
  std::unique_ptr<MacroDefinition> macro;  // kMacro, kCallBlock
  bool recursive = false;
};

struct Program {
  Block body;
};

}  // namespace quire::jinja
