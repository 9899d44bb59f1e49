#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_runtime.h"
#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

std::vector<Value> items_of(Call& call) {
  return call.runtime().iterate(call.at(0));
}

// "a.b.0": attributes and items, one after the other.
Value nested_attribute(Runtime& runtime, Value object, const Value& path, const Value* fallback) {
  std::int64_t index = 0;
  const Text* text = path.text();
  if (text == nullptr) {
    if (!path.to_integer(index)) fail("an attribute's name must be a string");
    return runtime.item(object, path);
  }
  std::string_view rest = text->bytes();
  while (true) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    const bool digits = !part.empty() && part.size() < 10 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    object = digits ? runtime.item(object, Value(std::int64_t{std::atoi(part.c_str())}))
                    : runtime.item(object, Value(Text(part, Origin::kTemplate)));
    if (fallback != nullptr && object.is_undefined()) object = *fallback;
    if (dot == rest.size()) return object;
    rest.remove_prefix(dot + 1);
  }
}

// What sorting looks at: an attribute if one is named, in lower case unless case counts.
Value sort_key(Call& call, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key =
      attribute == nullptr ? item : nested_attribute(call.runtime(), item, *attribute, nullptr);
  if (!case_sensitive && key.text() != nullptr) {
    key = call.runtime().text(case_mapped(*key.text(), to_lower));
  }
  return key;
}

struct Keyed {
  Value key, item;
};

std::vector<Keyed> keyed_items(Call& call, const Value* attribute, bool case_sensitive) {
  std::vector<Keyed> out;
  for (Value& item : items_of(call)) {
    Value key = sort_key(call, item, attribute, case_sensitive);
    out.push_back({std::move(key), std::move(item)});
  }
  return out;
}

void sort_by_key(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    runtime.charge(1);
    return reverse ? runtime.compare(b.key, a.key) < 0 : runtime.compare(a.key, b.key) < 0;
  });
}

Value unkeyed(Runtime& runtime, std::vector<Keyed>& keyed) {
  std::vector<Value> out;
  for (Keyed& entry : keyed) out.push_back(std::move(entry.item));
  return runtime.list(std::move(out));
}

Value filter_default(Call& call) {
  const Value& value = call.at(0);
  const bool replace = value.is_undefined() || (call.flag_or(2, false) && !truthy(value));
  if (!replace) return value;
  return call.find(1) == nullptr ? Value(Text()) : *call.find(1);
}

Value filter_length(Call& call) {
  return call.runtime().length(call.at(0));
}

Value filter_join(Call& call) {
  Runtime& runtime = call.runtime();
  const Text separator = call.find(1) == nullptr ? Text() : runtime.str(*call.find(1));
  const Value* attribute = call.given(2);
  Text out;
  bool first = true;
  for (const Value& item : items_of(call)) {
    if (!first) out.append(separator);
    out.append(runtime.str(
        attribute == nullptr ? item : nested_attribute(runtime, item, *attribute, nullptr)));
    runtime.check_size(out.size());
    runtime.charge(static_cast<std::int64_t>(separator.size() / 64));
    first = false;
  }
  return runtime.text(std::move(out));
}

Value filter_first(Call& call) {
  const std::vector<Value> items = items_of(call);
  return items.empty() ? Value::undefined("there is no first item") : items.front();
}

Value filter_last(Call& call) {
  const std::vector<Value> items = items_of(call);
  return items.empty() ? Value::undefined("there is no last item") : items.back();
}

Value filter_list(Call& call) {
  return call.runtime().list(items_of(call));
}

Value filter_items(Call& call) {
  const Value& value = call.at(0);
  std::vector<Value> pairs;
  if (!value.is_undefined()) {
    if (value.dict() == nullptr) call.refuse("needs a dict");
    for (const auto& [key, item] : value.dict()->entries) {
      pairs.push_back(call.runtime().list({key, item}, List::Form::kTuple));
    }
  }
  return call.runtime().list(std::move(pairs), List::Form::kIterator);
}

Value filter_reverse(Call& call) {
  const Value& value = call.at(0);
  if (value.text() != nullptr) {
    return call.runtime().slice(value, Value(), Value(), Value(std::int64_t{-1}));
  }
  std::vector<Value> items = items_of(call);
  std::reverse(items.begin(), items.end());
  return call.runtime().list(std::move(items), List::Form::kIterator);
}

Value filter_sort(Call& call) {
  std::vector<Keyed> items = keyed_items(call, call.given(3), call.flag_or(2, false));
  sort_by_key(call.runtime(), items, call.flag_or(1, false));
  return unkeyed(call.runtime(), items);
}

Value filter_unique(Call& call) {
  std::vector<Keyed> kept;
  for (Keyed& entry : keyed_items(call, call.given(2), call.flag_or(1, false))) {
    const bool seen = std::any_of(kept.begin(), kept.end(), [&](const Keyed& other) {
      return call.runtime().equal(other.key, entry.key);
    });
    if (!seen) kept.push_back(std::move(entry));
  }
  return unkeyed(call.runtime(), kept);
}

Value extreme(Call& call, int wanted) {
  std::vector<Keyed> items = keyed_items(call, call.given(2), call.flag_or(1, false));
  if (items.empty()) return Value::undefined("an empty list has no extreme");
  const Keyed* best = &items.front();
  for (const Keyed& entry : items) {
    if (call.runtime().compare(entry.key, best->key) == wanted) best = &entry;
  }
  return best->item;
}

Value filter_min(Call& call) {
  return extreme(call, -1);
}
Value filter_max(Call& call) {
  return extreme(call, 1);
}

Value filter_dictsort(Call& call) {
  const Dict* dict = call.at(0).dict();
  if (dict == nullptr) call.refuse("needs a dict");
  const bool case_sensitive = call.flag_or(1, false);
  const std::string by = call.find(2) == nullptr ? "key" : call.text(2).bytes();
  if (by != "key" && by != "value") call.refuse("sorts by 'key' or 'value'");
  std::vector<Keyed> items;
  for (const auto& [key, value] : dict->entries) {
    Value sort_by = sort_key(call, by == "key" ? key : value, nullptr, case_sensitive);
    items.push_back({std::move(sort_by), call.runtime().list({key, value}, List::Form::kTuple)});
  }
  sort_by_key(call.runtime(), items, call.flag_or(3, false));
  return unkeyed(call.runtime(), items);
}

Value filter_batch(Call& call) {
  const std::int64_t count = call.integer(1);
  if (count < 1) call.refuse("needs at least one item a batch");
  std::vector<Value> batches, batch;
  for (Value& item : items_of(call)) {
    if (static_cast<std::int64_t>(batch.size()) == count) {
      batches.push_back(call.runtime().list(std::exchange(batch, {})));
    }
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    while (call.given(2) != nullptr && static_cast<std::int64_t>(batch.size()) < count) {
      call.runtime().charge(1);
      batch.push_back(call.at(2));
    }
    batches.push_back(call.runtime().list(std::move(batch)));
  }
  return call.runtime().list(std::move(batches), List::Form::kIterator);
}

Value filter_attr(Call& call) {
  return call.runtime().attribute(call.at(0), call.text(1).bytes());
}

// The arguments of a filter or test named in an argument, with the item put first.
Invocation applied_to(const Invocation& raw, std::size_t first, const Value& item) {
  Invocation out;
  out.args.push_back(item);
  out.args.insert(out.args.end(), raw.args.begin() + static_cast<std::ptrdiff_t>(first),
                  raw.args.end());
  out.kwargs = raw.kwargs;
  return out;
}

const std::string& name_argument(Call& call, std::size_t index) {
  const auto& args = call.raw().args;
  if (index >= args.size() || args[index].text() == nullptr)
    call.refuse("needs a name as a string");
  return args[index].text()->bytes();
}

Value filter_map(Call& call) {
  Runtime& runtime = call.runtime();
  Invocation& raw = call.raw();
  if (raw.args.empty()) call.refuse("needs a list");
  const Value *attribute = nullptr, *fallback = nullptr;
  if (raw.args.size() == 1) {
    for (const auto& [key, value] : raw.kwargs) {
      if (key == "attribute") attribute = &value;
      if (key == "default") fallback = &value;
    }
    if (attribute == nullptr) call.refuse("needs a filter or an attribute");
  }
  std::vector<Value> out;
  for (const Value& item : runtime.iterate(raw.args.front())) {
    out.push_back(attribute != nullptr
                      ? nested_attribute(runtime, item, *attribute, fallback)
                      : runtime.filter(name_argument(call, 1), applied_to(raw, 2, item)));
  }
  return runtime.list(std::move(out), List::Form::kIterator);
}

// select and reject, with and without an attribute. `wanted`: what the test must say to keep.
Value selected(Call& call, bool with_attribute, bool wanted) {
  Runtime& runtime = call.runtime();
  Invocation& raw = call.raw();
  const std::size_t test = with_attribute ? 2 : 1;
  if (raw.args.size() < test) call.refuse("needs an attribute");
  std::vector<Value> out;
  for (const Value& item : runtime.iterate(raw.args.front())) {
    const Value subject =
        with_attribute ? nested_attribute(runtime, item, raw.args[1], nullptr) : item;
    const bool holds = raw.args.size() > test ? runtime.test(name_argument(call, test),
                                                             applied_to(raw, test + 1, subject))
                                              : truthy(subject);
    if (holds == wanted) out.push_back(item);
  }
  return runtime.list(std::move(out), List::Form::kIterator);
}

Value filter_select(Call& call) {
  return selected(call, false, true);
}
Value filter_reject(Call& call) {
  return selected(call, false, false);
}
Value filter_selectattr(Call& call) {
  return selected(call, true, true);
}
Value filter_rejectattr(Call& call) {
  return selected(call, true, false);
}

constexpr Builtin kFilters[] = {
    {"default", "value default_value boolean", filter_default},
    {"d", "value default_value boolean", filter_default},
    {"length", "obj", filter_length},
    {"count", "obj", filter_length},
    {"join", "value d attribute", filter_join},
    {"first", "seq", filter_first},
    {"last", "seq", filter_last},
    {"list", "value", filter_list},
    {"items", "value", filter_items},
    {"reverse", "value", filter_reverse},
    {"sort", "value reverse case_sensitive attribute", filter_sort},
    {"unique", "value case_sensitive attribute", filter_unique},
    {"min", "value case_sensitive attribute", filter_min},
    {"max", "value case_sensitive attribute", filter_max},
    {"dictsort", "value case_sensitive by reverse", filter_dictsort},
    {"batch", "value linecount fill_with", filter_batch},
    {"attr", "obj name", filter_attr},
    {"map", "*", filter_map},
    {"select", "*", filter_select},
    {"reject", "*", filter_reject},
    {"selectattr", "*", filter_selectattr},
    {"rejectattr", "*", filter_rejectattr},
};

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace quire::jinja
