#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/jinja_ast.h"
#include "engine/text/jinja_runtime.h"

namespace quire::jinja {

// Variables of one block. A name is looked up outwards; assigning writes to the innermost scope, so
// a loop's or macro's assignments end with it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  // Adds to `seen` how many variables were looked at.
  const Value* find(const std::string& name, std::size_t& seen) const;
  void set(const std::string& name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

// A macro with the scope it was defined in.
struct Macro {
  const MacroDefinition* definition;
  ScopePtr scope;
};

// Runs one parsed template once. `program` must outlive it.
class Interpreter : public Runtime {
 public:
  Interpreter(const Program& program, const TemplateBudget& budget, double now_s)
      : Runtime(budget, now_s), program_(program) {}
  ~Interpreter() override;

  Text run(std::vector<std::pair<std::string, Value>> variables);
  Value call(const Value& callee, Invocation invocation) override;

 private:
  enum class Flow { kNext, kBreak, kContinue };
  struct Loop : LoopState {  // with what loop(...) needs to run the body again
    const Stmt* statement = nullptr;
    ScopePtr scope;
  };

  Flow execute(const Block& block);
  Flow execute(const Stmt& statement);
  Flow execute_if(const Stmt& statement);
  Flow execute_for(const Stmt& statement);
  Flow run_loop(const Stmt& statement, const ScopePtr& scope, const Value& iterable,
                std::int64_t depth0);
  Flow run_iterations(const Stmt& statement, const ScopePtr& scope, Loop& loop);
  std::vector<Value> loop_items(const Stmt& statement, const ScopePtr& scope,
                                const Value& iterable);
  Flow execute_scoped(const Block& block, Text& out);
  Flow execute_set_block(const Stmt& statement);
  Flow execute_with(const Stmt& statement);
  Flow execute_filter_block(const Stmt& statement);
  void execute_call_block(const Stmt& statement);
  void assign(const Target& target, const Value& value);
  Value define(const MacroDefinition& definition);
  Value call_macro(const Macro& macro, Invocation invocation);
  void bind_arguments(const Macro& macro, Invocation& invocation, Scope& frame);
  Value call_loop(LoopState* state, Invocation invocation);
  void print(const Value& value);

  Value evaluate(const Expr& expr);
  const Value* look_up(const std::string& name);
  Value evaluate_name(const Expr& expr);
  Value evaluate_list(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_subscript(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller);
  Value evaluate_filter(const Expr& expr, const Value* innermost);
  Value evaluate_test(const Expr& expr);
  Value evaluate_chain(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_junction(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  // Everything behind children[0]; `subject` becomes the first argument.
  Invocation evaluate_arguments(const Expr& expr, const Value* subject);
  void spread(const Expr& expr, Invocation& invocation);

  const Program& program_;
  ScopePtr scope_;
  Text* out_ = nullptr;
  int line_ = 0;  // of what runs now, for messages
  std::deque<Loop> loops_;
  std::deque<Macro> macros_;
};

}  // namespace quire::jinja
