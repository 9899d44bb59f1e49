#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/chat_template.h"
#include "engine/text/jinja_callable.h"
#include "engine/text/jinja_value.h"

namespace quire::jinja {

// What built-ins may ask of a rendering: values made under its budget, and calls back into the
// template. One per rendering; one thread.
class Runtime {
 public:
  Runtime(const TemplateBudget& budget, double now_s) : budget_(budget), now_s_(now_s) {}
  virtual ~Runtime() = default;

  // Spends steps; a Failure when none are left.
  void charge(std::int64_t steps);
  // Refuses a string of this many bytes before it is built.
  void check_size(std::size_t bytes) const;
  std::size_t max_text_bytes() const { return budget_.max_output_bytes; }
  double now_s() const { return now_s_; }

  // Values whose building was paid for.
  Value text(Text text);
  Value list(std::vector<Value> items, List::Form form = List::Form::kList);
  Namespace* make_namespace();

  bool equal(const Value& a, const Value& b);
  int compare(const Value& a, const Value& b);
  bool contains(const Value& container, const Value& item);
  Text str(const Value& value);
  std::vector<Value> iterate(const Value& value);
  std::int64_t length(const Value& value);

  // object.name and object[key]: undefined when there is no such thing.
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);

  Value filter(const std::string& name, Invocation invocation);
  bool test(const std::string& name, Invocation invocation);
  virtual Value call(const Value& callee, Invocation invocation) = 0;

  // Counts one level of recursion while it lives.
  class Level {
   public:
    explicit Level(Runtime& runtime);
    ~Level() { --runtime_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  Value sequence_item(const Value& object, std::int64_t index);

  TemplateBudget budget_;
  double now_s_;
  std::int64_t steps_ = 0;
  int depth_ = 0;
  std::deque<Namespace> namespaces_;
};

// State of one {% for %} loop; the value of `loop`.
struct LoopState {
  std::vector<Value> items;
  std::size_t index = 0;
  std::int64_t depth0 = 0;
  Value last_changed;  // the argument of the latest loop.changed()
  bool has_changed = false;
};
Value loop_attribute(LoopState* loop, const std::string& name);

}  // namespace quire::jinja
