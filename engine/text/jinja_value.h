#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/text/jinja_text.h"

namespace quire::jinja {

// What every part of the template engine throws; chat_template.cpp turns it into an Error. It never
// leaves the engine.
struct Failure {
  std::string message;
  int line = 0;  // of the template; 0: not known (yet)
  bool is_raised =
      false;  // `message` stands by itself: raise_exception's words, or about the input
};
[[noreturn]] void fail(std::string message);
[[noreturn]] void fail_in_line(int line, std::string message);

struct List;
struct Dict;
struct Namespace;
struct LoopState;
struct Callable;
class Value;

// Lists and dicts nest at most this deep; building a deeper one is a Failure. It bounds the
// recursion of printing, comparing and destroying values.
inline constexpr int kMaxValueDepth = 100;

// A missing variable, attribute or item. Prints as nothing; most other uses are a Failure that says
// `what`.
struct Undefined {
  std::shared_ptr<const std::string> what;
};
struct None {};

// A Python-like value. Strings, lists and dicts are shared and immutable, so copies are cheap.
// Namespaces and loops belong to the interpreter and outlive every value of its rendering.
class Value {
 public:
  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}
  Value(Namespace* object) : data_(object) {}
  Value(LoopState* loop) : data_(loop) {}
  static Value undefined(std::string what);

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  const Text* text() const;
  const List* list() const;
  const Dict* dict() const;
  const Callable* callable() const;
  Namespace* object() const;
  LoopState* loop() const;
  // An int, or a bool as Python counts it.
  const std::int64_t* integer() const { return get<std::int64_t>(); }
  bool to_integer(std::int64_t& out) const;
  bool to_number(double& out) const;
  int depth() const;
  // Nodes and string bytes below this value, shared ones counted each time: what walking it costs.
  std::int64_t cost() const;

 private:
  std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Callable>, Namespace*, LoopState*>
      data_;
};

struct List {
  enum class Form { kList, kTuple, kIterator };  // kIterator: views, generators and ranges
  std::vector<Value> items;
  Form form = Form::kList;
  int depth = 1;
  std::int64_t cost = 1;
};
Value make_list(std::vector<Value> items, List::Form form = List::Form::kList);

// Insertion-ordered; a key set again keeps its place, and its first spelling, as in Python.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  int depth = 1;
  std::int64_t cost = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);  // only while building

 private:
  std::size_t index_of(const Value& key) const;
  std::map<std::string, std::size_t, std::less<>> strings_;  // position of every string key
  std::size_t other_keys_ = 0;
};
Value make_dict(Dict dict);

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b);
// <0, 0, >0; a Failure for kinds Python does not order.
int compare(const Value& a, const Value& b);
std::string_view type_name(const Value& value);

// str() and repr(). What is not itself a string counts as the caller's. Longer than `max_bytes`: a
// Failure.
Text to_text(const Value& value, std::size_t max_bytes);
std::string repr(const Value& value, std::size_t max_bytes);
std::string repr_float(double value);
// Python's float(text) for plain digits, in no locale; false: it is no number.
bool parse_float_digits(std::string_view digits, double& out);

}  // namespace quire::jinja
