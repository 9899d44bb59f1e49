#include <algorithm>
#include <array>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_runtime.h"

namespace quire::jinja {
namespace {

Value immutable(Call& call) {
  call.refuse("would change a value, which a chat template may not");
}

Value pair_list(Call& call, bool keys, bool values) {
  std::vector<Value> out;
  for (const auto& [key, value] : call.at(0).dict()->entries) {
    if (keys && values) {
      out.push_back(call.runtime().list({key, value}, List::Form::kTuple));
    } else {
      out.push_back(keys ? key : value);
    }
  }
  return call.runtime().list(std::move(out), List::Form::kIterator);
}

Value dict_items(Call& call) {
  return pair_list(call, true, true);
}
Value dict_keys(Call& call) {
  return pair_list(call, true, false);
}
Value dict_values(Call& call) {
  return pair_list(call, false, true);
}
Value same_value(Call& call) {
  return call.at(0);
}

Value dict_get(Call& call) {
  const Dict& dict = *call.at(0).dict();
  if (call.at(1).text() == nullptr) {
    call.runtime().charge(static_cast<std::int64_t>(dict.entries.size()));
  }
  if (const Value* value = dict.find(call.at(1))) return *value;
  return call.find(2) == nullptr ? Value() : *call.find(2);
}

Value list_index(Call& call) {
  const auto& items = call.at(0).list()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (call.runtime().equal(items[i], call.at(1))) return static_cast<std::int64_t>(i);
  }
  call.refuse("did not find the value");
}

Value list_count(Call& call) {
  const auto& items = call.at(0).list()->items;
  return static_cast<std::int64_t>(
      std::count_if(items.begin(), items.end(),
                    [&call](const Value& item) { return call.runtime().equal(item, call.at(1)); }));
}

Value loop_cycle(Call& call) {
  const Invocation& raw = call.raw();
  const std::size_t choices = raw.args.size() - 1;
  if (choices == 0) call.refuse("needs something to cycle through");
  return raw.args[1 + raw.args.front().loop()->index % choices];
}

Value loop_changed(Call& call) {
  Invocation& raw = call.raw();
  LoopState& loop = *raw.args.front().loop();
  raw.args.erase(raw.args.begin());
  Value now = call.runtime().list(std::move(raw.args), List::Form::kTuple);
  if (loop.has_changed && call.runtime().equal(loop.last_changed, now)) return false;
  loop.last_changed = std::move(now);
  loop.has_changed = true;
  return true;
}

constexpr Builtin kDictMethods[] = {
    {"get", "self key default", dict_get}, {"items", "self", dict_items},
    {"keys", "self", dict_keys},           {"values", "self", dict_values},
    {"copy", "self", same_value},          {"pop", "*", immutable},
    {"popitem", "*", immutable},           {"update", "*", immutable},
    {"setdefault", "*", immutable},        {"clear", "*", immutable},
};
constexpr Builtin kListMethods[] = {
    {"index", "self value", list_index},
    {"count", "self value", list_count},
    {"copy", "self", same_value},
    {"append", "*", immutable},
    {"extend", "*", immutable},
    {"insert", "*", immutable},
    {"pop", "*", immutable},
    {"remove", "*", immutable},
    {"reverse", "*", immutable},
    {"sort", "*", immutable},
    {"clear", "*", immutable},
};
constexpr Builtin kTupleMethods[] = {
    {"index", "self value", list_index},
    {"count", "self value", list_count},
};
constexpr Builtin kLoopMethods[] = {
    {"cycle", "*", loop_cycle},
    {"changed", "*", loop_changed},
};

std::span<const Builtin> methods_of(const Value& object) {
  if (object.text() != nullptr) return string_methods();
  if (object.dict() != nullptr) return kDictMethods;
  if (object.loop() != nullptr) return kLoopMethods;
  const List* list = object.list();
  if (list == nullptr || list->form == List::Form::kIterator) return {};
  if (list->form == List::Form::kTuple) return kTupleMethods;
  return kListMethods;
}

}  // namespace

const Builtin* find_method(const Value& object, std::string_view name) {
  const auto table = methods_of(object);
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const Builtin& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace quire::jinja
