#include "engine/text/jinja_callable.h"

#include <algorithm>

namespace quire::jinja {
namespace {

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> out;
  while (!words.empty()) {
    const std::size_t space = std::min(words.find(' '), words.size());
    out.push_back(words.substr(0, space));
    words.remove_prefix(std::min(space + 1, words.size()));
  }
  return out;
}

}  // namespace

Call::Call(Runtime& runtime, const Builtin& builtin, Invocation invocation)
    : runtime_(&runtime), builtin_(&builtin), raw_(std::move(invocation)) {
  if (builtin.parameters != "*") bind();
}

void Call::bind() {
  parameters_ = split_words(builtin_->parameters);
  if (raw_.args.size() > parameters_.size()) refuse("takes fewer arguments");
  bound_.resize(parameters_.size());
  present_.assign(parameters_.size(), false);
  for (std::size_t i = 0; i < raw_.args.size(); ++i) {
    bound_[i] = std::move(raw_.args[i]);
    present_[i] = true;
  }
  for (auto& [key, value] : raw_.kwargs) {
    const std::size_t index = parameter_index(key);
    if (present_[index]) refuse("was given '" + key + "' twice");
    bound_[index] = std::move(value);
    present_[index] = true;
  }
}

std::size_t Call::parameter_index(std::string_view name) const {
  const auto found = std::find(parameters_.begin(), parameters_.end(), name);
  if (found == parameters_.end()) refuse("has no argument '" + std::string(name) + "'");
  return static_cast<std::size_t>(found - parameters_.begin());
}

const Value* Call::find(std::size_t index) const {
  return present_[index] ? &bound_[index] : nullptr;
}

const Value* Call::given(std::size_t index) const {
  const Value* value = find(index);
  return value == nullptr || value->is_none() ? nullptr : value;
}

const Value& Call::at(std::size_t index) const {
  if (!present_[index]) refuse("needs '" + std::string(parameters_[index]) + "'");
  return bound_[index];
}

const Text& Call::text(std::size_t index) const {
  const Text* text = at(index).text();
  if (text == nullptr) {
    if (const auto* missing = at(index).get<Undefined>()) fail(*missing->what);
    refuse("needs a string for '" + std::string(parameters_[index]) + "', not a " +
           std::string(type_name(at(index))));
  }
  return *text;
}

std::int64_t Call::integer(std::size_t index) const {
  std::int64_t value = 0;
  if (!at(index).to_integer(value)) {
    refuse("needs a whole number for '" + std::string(parameters_[index]) + "'");
  }
  return value;
}

std::int64_t Call::integer_or(std::size_t index, std::int64_t fallback) const {
  return find(index) == nullptr ? fallback : integer(index);
}

bool Call::flag_or(std::size_t index, bool fallback) const {
  const Value* value = find(index);
  return value == nullptr ? fallback : truthy(*value);
}

void Call::refuse(std::string_view why) const {
  fail("'" + std::string(builtin_->name) + "' " + std::string(why));
}

}  // namespace quire::jinja
