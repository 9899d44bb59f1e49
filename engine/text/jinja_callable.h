#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja_value.h"

namespace quire::jinja {

class Runtime;
struct Macro;

// The evaluated arguments of one call. For filters, tests and methods the first positional argument
// is the value they work on.
struct Invocation {
  std::vector<Value> args;
  std::vector<std::pair<std::string, Value>> kwargs;
};

class Call;

// One built-in filter, test, function or method. `parameters`: names separated by spaces; "*" takes
// everything as given.
struct Builtin {
  std::string_view name;
  std::string_view parameters;
  Value (*run)(Call& call);
};

// Something a template can call: a built-in (with `self` when it is a method) or a macro.
struct Callable {
  const Builtin* builtin = nullptr;
  Macro* macro = nullptr;  // owned by the interpreter
  Value self;
  bool is_method = false;
  int depth() const { return self.depth() + 1; }
};

// The arguments of a built-in, bound to its parameters. Too many, unknown or doubled ones are a
// Failure.
class Call {
 public:
  Call(Runtime& runtime, const Builtin& builtin, Invocation invocation);

  Runtime& runtime() const { return *runtime_; }
  std::string_view name() const { return builtin_->name; }
  Invocation& raw() { return raw_; }  // of a "*" built-in

  // Null when not given.
  const Value* find(std::size_t index) const;
  // Null when not given, or given as none.
  const Value* given(std::size_t index) const;
  const Value& at(std::size_t index) const;
  const Text& text(std::size_t index) const;
  std::int64_t integer(std::size_t index) const;
  std::int64_t integer_or(std::size_t index, std::int64_t fallback) const;
  bool flag_or(std::size_t index, bool fallback) const;
  [[noreturn]] void refuse(std::string_view why) const;

 private:
  void bind();
  std::size_t parameter_index(std::string_view name) const;

  Runtime* runtime_;
  const Builtin* builtin_;
  Invocation raw_;
  std::vector<std::string_view> parameters_;
  std::vector<Value> bound_;
  std::vector<bool> present_;
};

}  // namespace quire::jinja
