#include "engine/text/jinja_runtime.h"

#include <algorithm>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

constexpr int kLevelsPerDepth = 8;  // expression and statement levels per level of nesting
constexpr std::size_t kBytesPerStep = 256;

std::string quoted(std::string_view name) {
  return "'" + std::string(name) + "'";
}

Value missing(const Value& object, const std::string& name) {
  return Value::undefined("a " + std::string(type_name(object)) + " has no " + quoted(name));
}

// Python's slice.indices().
struct SliceRange {
  std::int64_t start, stop, step;
};

SliceRange slice_range(const Value& start, const Value& stop, const Value& step,
                       std::int64_t length) {
  const auto read = [](const Value& value, std::int64_t fallback) {
    std::int64_t out = fallback;
    if (!value.is_none() && !value.to_integer(out)) fail("a slice needs whole numbers");
    return out;
  };
  const std::int64_t stride = read(step, 1);
  if (stride == 0) fail("a slice's step cannot be zero");
  const std::int64_t low = stride < 0 ? -1 : 0;
  const std::int64_t high = stride < 0 ? length - 1 : length;
  const auto place = [&](std::int64_t index) {
    return std::clamp(index < 0 ? index + length : index, low, high);
  };
  const std::int64_t first = start.is_none() ? (stride < 0 ? high : low) : place(read(start, 0));
  const std::int64_t last = stop.is_none() ? (stride < 0 ? low : high) : place(read(stop, 0));
  return {first, last, stride};
}

template <typename Visit>
void for_each_index(const SliceRange& range, Visit visit) {
  std::int64_t i = range.start;
  while (range.step > 0 ? i < range.stop : i > range.stop) {
    visit(static_cast<std::size_t>(i));
    // A huge step would overflow; one such step is past the end anyway.
    if (range.step > 0 ? range.step >= range.stop - i : range.step <= range.stop - i) break;
    i += range.step;
  }
}

std::vector<std::size_t> character_offsets(const std::string& bytes) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < bytes.size(); i += character_at(bytes, i).length) {
    offsets.push_back(i);
  }
  offsets.push_back(bytes.size());
  return offsets;
}

}  // namespace

Runtime::Level::Level(Runtime& runtime) : runtime_(runtime) {
  if (runtime.depth_ >= runtime.budget_.max_depth * kLevelsPerDepth) {
    fail("the template calls itself too deeply");
  }
  ++runtime.depth_;
}

void Runtime::charge(std::int64_t steps) {
  steps_ += std::min<std::int64_t>(steps, budget_.max_steps + 1);
  if (steps_ > budget_.max_steps) {
    fail("the chat template takes too many steps (more than " + std::to_string(budget_.max_steps) +
         ")");
  }
}

void Runtime::check_size(std::size_t bytes) const {
  if (bytes > budget_.max_output_bytes) {
    fail("the chat template makes a text longer than " + std::to_string(budget_.max_output_bytes) +
         " bytes");
  }
}

Value Runtime::text(Text text) {
  check_size(text.size());
  charge(static_cast<std::int64_t>(1 + text.cost() / kBytesPerStep));
  return Value(std::move(text));
}

Value Runtime::list(std::vector<Value> items, List::Form form) {
  charge(static_cast<std::int64_t>(items.size()));
  return make_list(std::move(items), form);
}

Namespace* Runtime::make_namespace() {
  charge(1);
  return &namespaces_.emplace_back();
}

bool Runtime::equal(const Value& a, const Value& b) {
  charge(std::min(a.cost(), b.cost()));
  return jinja::equal(a, b);
}

int Runtime::compare(const Value& a, const Value& b) {
  charge(std::min(a.cost(), b.cost()));
  return jinja::compare(a, b);
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    const Text* needle = item.text();
    if (needle == nullptr) fail("only a string can be 'in' a string");
    charge(static_cast<std::int64_t>(1 + text->size() / kBytesPerStep));
    return text->bytes().find(needle->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (item.text() == nullptr) charge(static_cast<std::int64_t>(dict->entries.size()));
    return dict->find(item) != nullptr;
  }
  if (container.is_undefined()) return false;
  const List* list = container.list();
  if (list == nullptr) fail("'in' needs a container, not a " + std::string(type_name(container)));
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& element) { return equal(element, item); });
}

Text Runtime::str(const Value& value) {
  charge(value.cost());
  return to_text(value, max_text_bytes());
}

std::vector<Value> Runtime::iterate(const Value& value) {
  std::vector<Value> out;
  if (value.is_undefined()) return out;
  if (const List* list = value.list()) {
    charge(static_cast<std::int64_t>(list->items.size()));
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    charge(static_cast<std::int64_t>(dict->entries.size()));
    for (const auto& entry : dict->entries) out.push_back(entry.first);
    return out;
  }
  const Text* text = value.text();
  if (text == nullptr) fail("cannot iterate over a " + std::string(type_name(value)));
  for (std::size_t i = 0; i < text->size();) {
    charge(1);
    const std::size_t end = i + character_at(text->bytes(), i).length;
    out.emplace_back(text->slice(i, end));
    i = end;
  }
  return out;
}

std::int64_t Runtime::length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const List* list = value.list()) return static_cast<std::int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->entries.size());
  const Text* text = value.text();
  if (text == nullptr) fail("a " + std::string(type_name(value)) + " has no length");
  charge(static_cast<std::int64_t>(1 + text->size() / kBytesPerStep));
  return static_cast<std::int64_t>(character_count(text->bytes()));
}

Value Runtime::attribute(const Value& object, const std::string& name) {
  if (const auto* undefined = object.get<Undefined>()) fail(*undefined->what);
  if (Namespace* space = object.object()) {
    charge(static_cast<std::int64_t>(space->attributes.size() / 16));
    const Value* value = space->find(name);
    return value == nullptr ? missing(object, name) : *value;
  }
  if (LoopState* loop = object.loop()) {
    if (find_method(object, name) == nullptr) return loop_attribute(loop, name);
  }
  if (const Builtin* method = find_method(object, name)) {
    Callable callable;
    callable.builtin = method;
    callable.self = object;
    callable.is_method = true;
    if (callable.depth() > kMaxValueDepth) fail("a value is nested too deeply");
    return std::make_shared<const Callable>(std::move(callable));
  }
  if (const Dict* dict = object.dict()) {
    if (const Value* value = dict->find(name)) return *value;
  }
  return missing(object, name);
}

Value Runtime::item(const Value& object, const Value& key) {
  if (const auto* undefined = object.get<Undefined>()) fail(*undefined->what);
  if (const Dict* dict = object.dict()) {
    if (key.text() == nullptr) charge(static_cast<std::int64_t>(dict->entries.size()));
    if (const Value* value = dict->find(key)) return *value;
  }
  if (const Text* name = key.text()) return attribute(object, name->bytes());
  std::int64_t index = 0;
  if (key.to_integer(index)) return sequence_item(object, index);
  return missing(object, "item");
}

Value Runtime::sequence_item(const Value& object, std::int64_t index) {
  const std::string name = "item " + std::to_string(index);
  const List* list = object.list();
  const Text* text = object.text();
  if (list == nullptr && text == nullptr) return missing(object, name);
  const std::int64_t count = length(object);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return missing(object, name);
  if (list != nullptr) return list->items[static_cast<std::size_t>(index)];
  const std::size_t begin = character_offset(text->bytes(), static_cast<std::size_t>(index));
  return text->slice(begin, begin + character_at(text->bytes(), begin).length);
}

Value Runtime::slice(const Value& object, const Value& start, const Value& stop,
                     const Value& step) {
  if (const auto* undefined = object.get<Undefined>()) fail(*undefined->what);
  if (const List* list = object.list()) {
    const auto count = static_cast<std::int64_t>(list->items.size());
    std::vector<Value> items;
    for_each_index(slice_range(start, stop, step, count),
                   [&](std::size_t i) { items.push_back(list->items[i]); });
    return this->list(std::move(items), list->form);
  }
  const Text* text = object.text();
  if (text == nullptr) fail("a " + std::string(type_name(object)) + " cannot be sliced");
  const std::vector<std::size_t> offsets = character_offsets(text->bytes());
  charge(static_cast<std::int64_t>(1 + offsets.size() / kBytesPerStep));
  const auto range = slice_range(start, stop, step, static_cast<std::int64_t>(offsets.size()) - 1);
  if (range.step == 1) {
    if (range.start >= range.stop) return Text();
    return this->text(text->slice(offsets[static_cast<std::size_t>(range.start)],
                                  offsets[static_cast<std::size_t>(range.stop)]));
  }
  Text out;
  for_each_index(range,
                 [&](std::size_t i) { out.append_slice(*text, offsets[i], offsets[i + 1]); });
  return this->text(std::move(out));
}

Value Runtime::filter(const std::string& name, Invocation invocation) {
  const Builtin* builtin = find_filter(name);
  if (builtin == nullptr) fail("the filter " + quoted(name) + " is not supported");
  charge(1);
  Call call(*this, *builtin, std::move(invocation));
  return builtin->run(call);
}

bool Runtime::test(const std::string& name, Invocation invocation) {
  const Builtin* builtin = find_test(name);
  if (builtin == nullptr) fail("the test " + quoted(name) + " is not supported");
  charge(1);
  Call call(*this, *builtin, std::move(invocation));
  return truthy(builtin->run(call));
}

Value loop_attribute(LoopState* loop, const std::string& name) {
  const auto index = static_cast<std::int64_t>(loop->index);
  const auto length = static_cast<std::int64_t>(loop->items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return length - index;
  if (name == "revindex0") return length - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == length;
  if (name == "length") return length;
  if (name == "depth") return loop->depth0 + 1;
  if (name == "depth0") return loop->depth0;
  if (name == "previtem") {
    if (index == 0 || index > length) return Value::undefined("there is no previous item");
    return loop->items[loop->index - 1];
  }
  if (name == "nextitem") {
    if (index + 1 >= length) return Value::undefined("there is no next item");
    return loop->items[loop->index + 1];
  }
  return Value::undefined("'loop' has no '" + name + "'");
}

}  // namespace quire::jinja
