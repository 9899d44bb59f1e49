#include "engine/text/jinja_interpreter.h"

#include <algorithm>

#include "engine/text/jinja_builtins.h"

namespace quire::jinja {
namespace {

constexpr std::size_t kNamesPerStep = 16;  // names compared for the price of one step

// Puts a value back at the end of a block, also when a Failure passes.
template <typename T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), old_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  T& place_;
  T old_;
};

ScopePtr inner_scope(ScopePtr parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = std::move(parent);
  return scope;
}

}  // namespace

const Value* Scope::find(const std::string& name, std::size_t& seen) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    seen += scope->variables.size() + 1;
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(const std::string& name, Value value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Interpreter::~Interpreter() {
  // A macro's scope may hold the macro itself; taken apart here, no chain of scopes is destroyed
  // recursively.
  for (Macro& macro : macros_) {
    if (macro.scope != nullptr) macro.scope->variables.clear();
  }
}

Text Interpreter::run(std::vector<std::pair<std::string, Value>> variables) {
  Text out;
  out_ = &out;
  scope_ = std::make_shared<Scope>();
  scope_->variables = std::move(variables);
  scope_ = inner_scope(scope_);
  try {
    execute(program_.body);
  } catch (Failure& failure) {
    if (failure.line == 0) failure.line = line_;
    throw;
  }
  return out;
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const auto& statement : block) {
    const Flow flow = execute(*statement);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& statement) {
  const Level level(*this);
  charge(1);
  line_ = statement.line;
  switch (statement.kind) {
    case Stmt::Kind::kData:
      print(statement.data);
      break;
    case Stmt::Kind::kOutput:
      for (const ExprPtr& expr : statement.exprs) print(evaluate(*expr));
      break;
    case Stmt::Kind::kIf:
      return execute_if(statement);
    case Stmt::Kind::kFor:
      return execute_for(statement);
    case Stmt::Kind::kSet:
      assign(statement.targets.front(), evaluate(*statement.exprs.front()));
      break;
    case Stmt::Kind::kSetBlock:
      return execute_set_block(statement);
    case Stmt::Kind::kMacro:
      scope_->set(statement.macro->name, define(*statement.macro));
      break;
    case Stmt::Kind::kCallBlock:
      execute_call_block(statement);
      break;
    case Stmt::Kind::kFilterBlock:
      return execute_filter_block(statement);
    case Stmt::Kind::kWith:
      return execute_with(statement);
    case Stmt::Kind::kScope:
      return execute_scoped(statement.body, *out_);
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::print(const Value& value) {
  const Text* text = value.text();
  Text made;
  if (text == nullptr) {
    made = str(value);
    text = &made;
  }
  check_size(out_->size() + text->size());
  charge(static_cast<std::int64_t>(text->cost() / 256));
  out_->append(*text);
}

Interpreter::Flow Interpreter::execute_if(const Stmt& statement) {
  for (const Stmt::Branch& branch : statement.branches) {
    if (branch.condition == nullptr || truthy(evaluate(*branch.condition))) {
      return execute(branch.body);
    }
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_for(const Stmt& statement) {
  return run_loop(statement, scope_, evaluate(*statement.exprs[0]), 0);
}

std::vector<Value> Interpreter::loop_items(const Stmt& statement, const ScopePtr& scope,
                                           const Value& iterable) {
  std::vector<Value> items = iterate(iterable);
  const Expr* condition = statement.exprs[1].get();
  if (condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const Restore<ScopePtr> restore(scope_, inner_scope(scope));
    scope_->set("loop", Value::undefined("a loop's filter cannot use 'loop'"));
    assign(statement.targets.front(), item);
    if (truthy(evaluate(*condition))) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& statement, const ScopePtr& scope,
                                        const Value& iterable, std::int64_t depth0) {
  std::vector<Value> items = loop_items(statement, scope, iterable);
  if (items.empty()) {
    const Restore<ScopePtr> restore(scope_, inner_scope(scope));
    return execute(statement.otherwise);
  }
  Loop& loop = loops_.emplace_back();
  loop.items = std::move(items);
  loop.depth0 = depth0;
  loop.statement = statement.recursive ? &statement : nullptr;
  loop.scope = scope;
  const Flow flow = run_iterations(statement, scope, loop);
  loop.items.clear();
  loop.scope.reset();
  return flow;
}

Interpreter::Flow Interpreter::run_iterations(const Stmt& statement, const ScopePtr& scope,
                                              Loop& loop) {
  for (std::size_t i = 0; i < loop.items.size(); ++i) {
    charge(1);
    loop.index = i;
    const Restore<ScopePtr> restore(scope_, inner_scope(scope));
    scope_->set("loop", Value(static_cast<LoopState*>(&loop)));
    assign(statement.targets.front(), loop.items[i]);
    if (execute(statement.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_scoped(const Block& block, Text& out) {
  const Restore<ScopePtr> restore_scope(scope_, inner_scope(scope_));
  const Restore<Text*> restore_out(out_, &out);
  return execute(block);
}

Interpreter::Flow Interpreter::execute_set_block(const Stmt& statement) {
  Text captured;
  const Flow flow = execute_scoped(statement.body, captured);
  if (flow != Flow::kNext) return flow;
  Value value = text(std::move(captured));
  const Expr* filters = statement.exprs.front().get();
  if (filters != nullptr) value = evaluate_filter(*filters, &value);
  assign(statement.targets.front(), value);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_filter_block(const Stmt& statement) {
  Text captured;
  const Flow flow = execute_scoped(statement.body, captured);
  if (flow != Flow::kNext) return flow;
  const Value value = text(std::move(captured));
  print(evaluate_filter(*statement.exprs.front(), &value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& statement) {
  std::vector<Value> values;
  for (const ExprPtr& expr : statement.exprs) values.push_back(evaluate(*expr));
  const Restore<ScopePtr> restore(scope_, inner_scope(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.targets[i], values[i]);
  return execute(statement.body);
}

void Interpreter::execute_call_block(const Stmt& statement) {
  const Value caller = define(*statement.macro);
  print(evaluate_call(*statement.exprs.front(), &caller));
}

const Value* Interpreter::look_up(const std::string& name) {
  std::size_t seen = 0;
  const Value* value = scope_->find(name, seen);
  charge(static_cast<std::int64_t>(seen / kNamesPerStep));
  return value;
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const std::vector<Value> items = iterate(value);
    if (items.size() != target.parts.size()) {
      fail("cannot unpack " + std::to_string(items.size()) + " values into " +
           std::to_string(target.parts.size()) + " names");
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  } else if (target.attribute.empty()) {
    charge(static_cast<std::int64_t>(scope_->variables.size() / kNamesPerStep));
    scope_->set(target.name, value);
  } else {
    const Value* object = look_up(target.name);
    Namespace* space = object == nullptr ? nullptr : object->object();
    if (space == nullptr)
      fail("'" + target.name + "' is no namespace, so nothing can be set in it");
    charge(static_cast<std::int64_t>(space->attributes.size() / kNamesPerStep));
    space->set(target.attribute, value);
  }
}

Value Interpreter::define(const MacroDefinition& definition) {
  charge(1);
  macros_.push_back({&definition, scope_});
  Callable callable;
  callable.macro = &macros_.back();
  return std::make_shared<const Callable>(std::move(callable));
}

Value Interpreter::call(const Value& callee, Invocation invocation) {
  const Level level(*this);
  charge(1);
  if (const auto* undefined = callee.get<Undefined>()) fail(*undefined->what);
  if (LoopState* state = callee.loop()) return call_loop(state, std::move(invocation));
  const Callable* callable = callee.callable();
  if (callable == nullptr) fail("a " + std::string(type_name(callee)) + " cannot be called");
  if (callable->macro != nullptr) return call_macro(*callable->macro, std::move(invocation));
  if (callable->is_method) invocation.args.insert(invocation.args.begin(), callable->self);
  Call builtin_call(*this, *callable->builtin, std::move(invocation));
  return callable->builtin->run(builtin_call);
}

Value Interpreter::call_loop(LoopState* state, Invocation invocation) {
  const Loop& loop = *static_cast<const Loop*>(state);  // every LoopState is one
  if (loop.statement == nullptr || loop.scope == nullptr) fail("this loop is not recursive");
  if (invocation.args.size() != 1 || !invocation.kwargs.empty()) fail("'loop' takes one list");
  const Stmt& statement = *loop.statement;
  const ScopePtr scope = loop.scope;
  Text out;
  {
    const Restore<Text*> restore(out_, &out);
    run_loop(statement, scope, invocation.args.front(), state->depth0 + 1);
  }
  return text(std::move(out));
}

Value Interpreter::call_macro(const Macro& macro, Invocation invocation) {
  const ScopePtr frame = inner_scope(macro.scope);
  const Restore<ScopePtr> restore_scope(scope_, frame);
  bind_arguments(macro, invocation, *frame);
  Text out;
  const Restore<Text*> restore_out(out_, &out);
  execute(macro.definition->body);
  return text(std::move(out));
}

void Interpreter::bind_arguments(const Macro& macro, Invocation& invocation, Scope& frame) {
  const MacroDefinition& definition = *macro.definition;
  const std::string name = "the macro '" + definition.name + "'";
  auto& named = invocation.kwargs;
  const auto take_named = [&named](const std::string& key, Value& value) {
    const auto found = std::find_if(named.begin(), named.end(),
                                    [&key](const auto& entry) { return entry.first == key; });
    if (found == named.end()) return false;
    value = std::move(found->second);
    named.erase(found);
    return true;
  };
  for (std::size_t i = 0; i < definition.parameters.size(); ++i) {
    const Parameter& parameter = definition.parameters[i];
    Value value;
    if (i < invocation.args.size()) {
      value = invocation.args[i];
      if (take_named(parameter.name, value)) fail(name + " got '" + parameter.name + "' twice");
    } else if (!take_named(parameter.name, value)) {
      value = parameter.fallback != nullptr
                  ? evaluate(*parameter.fallback)
                  : Value::undefined(name + " was not given '" + parameter.name + "'");
    }
    frame.set(parameter.name, std::move(value));
  }
  if (definition.uses_caller) {
    Value caller = Value::undefined("there is no caller");
    take_named("caller", caller);
    frame.set("caller", std::move(caller));
  }
  if (definition.uses_kwargs) {
    Dict rest;
    for (auto& [key, value] : named) rest.set(Text(key, Origin::kTemplate), std::move(value));
    frame.set("kwargs", make_dict(std::move(rest)));
  } else if (!named.empty()) {
    fail(name + " takes no argument '" + named.front().first + "'");
  }
  const std::size_t bound = std::min(definition.parameters.size(), invocation.args.size());
  std::vector<Value> extra(invocation.args.begin() + static_cast<std::ptrdiff_t>(bound),
                           invocation.args.end());
  if (definition.uses_varargs) {
    frame.set("varargs", list(std::move(extra), List::Form::kTuple));
  } else if (!extra.empty()) {
    fail(name + " takes fewer arguments");
  }
}

}  // namespace quire::jinja
