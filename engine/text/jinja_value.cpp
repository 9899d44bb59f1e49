#include "engine/text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/text/jinja_callable.h"
#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

constexpr std::int64_t kMaxCost = std::int64_t{1} << 50;  // saturates: shared values multiply
constexpr std::size_t kNotFound = static_cast<std::size_t>(-1);

template <typename T>
const T* shared(const Value& value) {
  const auto* pointer = value.get<std::shared_ptr<const T>>();
  return pointer == nullptr ? nullptr : pointer->get();
}

int sign(int value) {
  return value < 0 ? -1 : value > 0;
}

void append_quoted(std::string& out, std::string_view bytes) {
  const bool single = bytes.find('\'') == bytes.npos || bytes.find('"') != bytes.npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = character_at(bytes, i);
    char buffer[16];
    if (c.code == quote || c.code == '\\') {
      (out += '\\') += bytes[i];
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (c.code < 0 || is_printable(c.code)) {
      out.append(bytes, i, c.length);
    } else {
      const char* format = c.code < 0x100 ? "\\x%02x" : c.code < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(buffer, sizeof buffer, format, c.code);
      out += buffer;
    }
    i += c.length;
  }
  out += quote;
}

void append_repr(std::string& out, const Value& value, std::size_t max_bytes);

void append_list(std::string& out, const List& list, std::size_t max_bytes) {
  if (list.form == List::Form::kIterator) {
    fail("an iterator cannot be printed; turn it into a list with |list first");
  }
  const bool tuple = list.form == List::Form::kTuple;
  out += tuple ? '(' : '[';
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, list.items[i], max_bytes);
  }
  if (tuple && list.items.size() == 1) out += ',';
  out += tuple ? ')' : ']';
}

void append_dict(std::string& out, const Dict& dict, std::size_t max_bytes) {
  out += '{';
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(out, dict.entries[i].first, max_bytes);
    out += ": ";
    append_repr(out, dict.entries[i].second, max_bytes);
  }
  out += '}';
}

void append_repr(std::string& out, const Value& value, std::size_t max_bytes) {
  if (out.size() > max_bytes) fail("a value is too large to print");
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (const auto* boolean = value.get<bool>()) {
    out += *boolean ? "True" : "False";
  } else if (const auto* integer = value.integer()) {
    out += std::to_string(*integer);
  } else if (const auto* number = value.get<double>()) {
    out += repr_float(*number);
  } else if (const Text* text = value.text()) {
    append_quoted(out, text->bytes());
  } else if (const List* list = value.list()) {
    append_list(out, *list, max_bytes);
  } else if (const Dict* dict = value.dict()) {
    append_dict(out, *dict, max_bytes);
  } else {
    fail("a " + std::string(type_name(value)) + " cannot be printed");
  }
}

bool equal_lists(const List& a, const List& b) {
  if (&a == &b) return true;
  return a.form == b.form && a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&b](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

bool equal_numbers(const Value& a, const Value& b, bool& equal_out) {
  std::int64_t left = 0, right = 0;
  double left_float = 0, right_float = 0;
  if (a.to_integer(left) && b.to_integer(right)) {
    equal_out = left == right;
  } else if (a.to_number(left_float) && b.to_number(right_float)) {
    equal_out = left_float == right_float;
  } else {
    return false;
  }
  return true;
}

int compare_lists(const List& a, const List& b) {
  const std::size_t common = std::min(a.items.size(), b.items.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!equal(a.items[i], b.items[i])) return compare(a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size() ? -1 : a.items.size() > b.items.size();
}

}  // namespace

void fail(std::string message) {
  throw Failure{std::move(message), 0, false};
}

void fail_in_line(int line, std::string message) {
  throw Failure{std::move(message), line, false};
}

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

const Text* Value::text() const {
  return shared<Text>(*this);
}
const List* Value::list() const {
  return shared<List>(*this);
}
const Dict* Value::dict() const {
  return shared<Dict>(*this);
}
const Callable* Value::callable() const {
  return shared<Callable>(*this);
}

Namespace* Value::object() const {
  const auto* pointer = get<Namespace*>();
  return pointer == nullptr ? nullptr : *pointer;
}

LoopState* Value::loop() const {
  const auto* pointer = get<LoopState*>();
  return pointer == nullptr ? nullptr : *pointer;
}

bool Value::to_integer(std::int64_t& out) const {
  if (const auto* boolean = get<bool>()) {
    out = *boolean ? 1 : 0;
  } else if (const auto* value = integer()) {
    out = *value;
  } else {
    return false;
  }
  return true;
}

bool Value::to_number(double& out) const {
  std::int64_t whole = 0;
  if (to_integer(whole)) {
    out = static_cast<double>(whole);
  } else if (const auto* value = get<double>()) {
    out = *value;
  } else {
    return false;
  }
  return true;
}

int Value::depth() const {
  if (const List* items = list()) return items->depth;
  if (const Dict* entries = dict()) return entries->depth;
  if (const Callable* function = callable()) return function->depth();
  return 0;
}

std::int64_t Value::cost() const {
  if (const Text* string = text()) return 1 + static_cast<std::int64_t>(string->size() / 64);
  if (const List* items = list()) return items->cost;
  if (const Dict* entries = dict()) return entries->cost;
  if (const Callable* function = callable()) return function->self.cost() + 1;
  return 1;
}

Value make_list(std::vector<Value> items, List::Form form) {
  List list{std::move(items), form, 1, 1};
  for (const Value& item : list.items) {
    list.depth = std::max(list.depth, item.depth() + 1);
    list.cost = std::min(kMaxCost, list.cost + item.cost());
  }
  if (list.depth > kMaxValueDepth) fail("a list is nested too deeply");
  return std::make_shared<const List>(std::move(list));
}

Value make_dict(Dict dict) {
  for (const auto& [key, value] : dict.entries) {
    dict.depth = std::max({dict.depth, key.depth() + 1, value.depth() + 1});
    dict.cost = std::min(kMaxCost, dict.cost + key.cost() + value.cost());
  }
  if (dict.depth > kMaxValueDepth) fail("a dict is nested too deeply");
  return std::make_shared<const Dict>(std::move(dict));
}

std::size_t Dict::index_of(const Value& key) const {
  if (const Text* text = key.text()) {
    const auto found = strings_.find(text->bytes());
    return found == strings_.end() ? kNotFound : found->second;
  }
  if (other_keys_ == 0) return kNotFound;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].first.text() == nullptr && equal(entries[i].first, key)) return i;
  }
  return kNotFound;
}

const Value* Dict::find(const Value& key) const {
  const std::size_t index = index_of(key);
  return index == kNotFound ? nullptr : &entries[index].second;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = strings_.find(key);
  return found == strings_.end() ? nullptr : &entries[found->second].second;
}

void Dict::set(Value key, Value value) {
  const std::size_t index = index_of(key);
  if (index != kNotFound) {
    entries[index].second = std::move(value);
    return;
  }
  if (const Text* text = key.text()) {
    strings_.emplace(text->bytes(), entries.size());
  } else {
    ++other_keys_;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (const auto* boolean = value.get<bool>()) return *boolean;
  if (const auto* integer = value.integer()) return *integer != 0;
  if (const auto* number = value.get<double>()) return *number != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->entries.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  bool numbers_equal = false;
  if (equal_numbers(a, b, numbers_equal)) return numbers_equal;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (a.list() != nullptr && b.list() != nullptr) return equal_lists(*a.list(), *b.list());
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(*a.dict(), *b.dict());
  if (a.is_none() && b.is_none()) return true;
  if (a.is_undefined() && b.is_undefined()) return true;
  if (a.object() != nullptr && a.object() == b.object()) return true;
  if (a.loop() != nullptr && a.loop() == b.loop()) return true;
  return a.callable() != nullptr && a.callable() == b.callable();
}

int compare(const Value& a, const Value& b) {
  std::int64_t left = 0, right = 0;
  if (a.to_integer(left) && b.to_integer(right)) return left < right ? -1 : left > right;
  double left_float = 0, right_float = 0;
  if (a.to_number(left_float) && b.to_number(right_float)) {
    return left_float < right_float ? -1 : left_float > right_float;
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    return sign(a.text()->bytes().compare(b.text()->bytes()));
  }
  const List* left_list = a.list();
  const List* right_list = b.list();
  if (left_list != nullptr && right_list != nullptr && left_list->form == right_list->form) {
    return compare_lists(*left_list, *right_list);
  }
  if (a.is_undefined()) fail(*a.get<Undefined>()->what);
  if (b.is_undefined()) fail(*b.get<Undefined>()->what);
  fail("a " + std::string(type_name(a)) + " and a " + std::string(type_name(b)) +
       " cannot be put in order");
}

std::string_view type_name(const Value& value) {
  if (value.is_undefined()) return "undefined value";
  if (value.is_none()) return "none";
  if (value.get<bool>() != nullptr) return "bool";
  if (value.integer() != nullptr) return "int";
  if (value.get<double>() != nullptr) return "float";
  if (value.text() != nullptr) return "string";
  if (value.dict() != nullptr) return "dict";
  if (value.object() != nullptr) return "namespace";
  if (value.loop() != nullptr) return "loop";
  if (value.callable() != nullptr) return "function";
  switch (value.list()->form) {
    case List::Form::kList:
      return "list";
    case List::Form::kTuple:
      return "tuple";
    case List::Form::kIterator:
      break;
  }
  return "iterator";
}

Text to_text(const Value& value, std::size_t max_bytes) {
  if (const Text* text = value.text()) return *text;
  if (value.is_undefined()) return {};
  return Text(repr(value, max_bytes), Origin::kCaller);
}

std::string repr(const Value& value, std::size_t max_bytes) {
  std::string out;
  append_repr(out, value, max_bytes);
  return out;
}

bool parse_float_digits(std::string_view digits, double& out) {
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '-' || digits.find('(') != digits.npos) return false;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // Too near to zero or too far from it: only the exponent's sign tells.
    value = digits.find("e-") != digits.npos || digits.find("E-") != digits.npos ? 0 : HUGE_VAL;
  } else if (error != std::errc()) {
    return false;
  }
  out = negative ? -value : value;
  return true;
}

std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double magnitude = std::fabs(value);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  std::string out(buffer, end.ptr);
  if (!scientific && out.find('.') == out.npos) out += ".0";
  return out;
}

}  // namespace quire::jinja
