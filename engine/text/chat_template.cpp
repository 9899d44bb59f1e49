#include "engine/text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_json.h"
#include "engine/text/jinja_parser.h"

namespace quire {
namespace {

using jinja::Failure;
using jinja::Origin;
using jinja::Text;
using jinja::Value;
using Variables = std::vector<std::pair<std::string, Value>>;

constexpr std::size_t kMaxTemplateBytes = 1u << 20;

// Names a caller may not set: they belong to the renderer. `tools` and `documents` are the
// caller's.
constexpr std::array<std::string_view, 13> kReservedNames = {
    "messages",        "add_generation_prompt",
    "bos_token",       "eos_token",
    "chat_template",   "tokenize",
    "raise_exception", "range",
    "namespace",       "dict",
    "strftime_now",    "loop",
    "caller"};

Error failed(const Failure& failure) {
  if (failure.is_raised) return make_error(ErrorCode::kInvalidArgument, failure.message);
  std::string message = "The chat template failed";
  if (failure.line > 0) message += " in line " + std::to_string(failure.line);
  return make_error(ErrorCode::kInvalidArgument, message + ": " + failure.message + ".");
}

// Runs `work`, turning whatever the template engine throws into an Error.
template <typename Work>
auto guarded(Work work) -> Result<decltype(work())> {
  try {
    return work();
  } catch (const Failure& failure) {
    return failed(failure);
  } catch (const std::exception&) {
    return make_error(ErrorCode::kOutOfMemory,
                      "There is not enough memory to render the chat template.");
  }
}

// For what the caller gave, not the template: the whole sentence.
[[noreturn]] void refuse(std::string sentence) {
  Failure failure;
  failure.message = std::move(sentence);
  failure.is_raised = true;
  throw failure;
}

Value read_json(std::string_view json, const std::string& what) {
  try {
    return jinja::parse_json(json);
  } catch (const Failure& failure) {
    refuse(what + " cannot be read as JSON: " + failure.message + ".");
  }
}

Value message_value(const ChatMessage& message) {
  jinja::Dict dict;
  const auto set = [&dict](const char* key, const std::string& value) {
    dict.set(Text(key, Origin::kTemplate), Text(value, Origin::kCaller));
  };
  set("role", message.role);
  set("content", message.content);
  if (!message.name.empty()) set("name", message.name);
  return jinja::make_dict(std::move(dict));
}

Value messages_value(const std::vector<ChatMessage>& messages) {
  std::vector<Value> items;
  for (const ChatMessage& message : messages) items.push_back(message_value(message));
  return jinja::make_list(std::move(items));
}

void set_variable(Variables& variables, const std::string& name, const Value& value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = value;
      return;
    }
  }
  variables.emplace_back(name, value);
}

void add_extra_variables(Variables& variables, const std::string& json) {
  if (json.empty()) return;
  const Value extra = read_json(json, "The extra template variables");
  if (extra.dict() == nullptr) refuse("The extra template variables are no JSON object.");
  constexpr std::size_t kMaxVariables = 256;
  if (extra.dict()->entries.size() > kMaxVariables)
    refuse("There are too many extra template variables.");
  for (const auto& [key, value] : extra.dict()->entries) {
    const std::string& name = key.text()->bytes();
    if (std::find(kReservedNames.begin(), kReservedNames.end(), name) != kReservedNames.end()) {
      refuse("The template variable '" + name + "' is set by Quire and cannot be given.");
    }
    set_variable(variables, name, value);
  }
}

// `tools` and `documents` are always there, as none at first: so Hugging Face's renderer has it.
Variables make_variables(Value messages, const ChatTemplateOptions& options) {
  Variables variables = {
      {"messages", std::move(messages)},
      {"tools", Value()},
      {"documents", Value()},
      {"add_generation_prompt", Value(options.add_generation_prompt)},
      {"bos_token", Value(Text(options.bos_token, Origin::kTemplate))},
      {"eos_token", Value(Text(options.eos_token, Origin::kTemplate))},
  };
  add_extra_variables(variables, options.extra_variables_json);
  return variables;
}

class JinjaChatTemplate final : public ChatTemplate {
 public:
  JinjaChatTemplate(std::string source, jinja::Program program, TemplateBudget budget)
      : source_(std::move(source)), program_(std::move(program)), budget_(budget) {}

  Result<RenderedPrompt> render(const std::vector<ChatMessage>& messages,
                                const ChatTemplateOptions& options) const override {
    return guarded([&] { return run(messages_value(messages), options); });
  }

  Result<RenderedPrompt> render_json(std::string_view messages_json,
                                     const ChatTemplateOptions& options) const override {
    return guarded([&] {
      Value messages = read_json(messages_json, "The messages");
      if (messages.list() == nullptr) refuse("The messages are no JSON array.");
      return run(std::move(messages), options);
    });
  }

  const std::string& source() const override { return source_; }

 private:
  RenderedPrompt run(Value messages, const ChatTemplateOptions& options) const {
    jinja::Interpreter interpreter(program_, budget_, options.now_s);
    const Text text = interpreter.run(make_variables(std::move(messages), options));
    return {text.bytes(), text.template_ranges()};
  }

  std::string source_;
  jinja::Program program_;
  TemplateBudget budget_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> compile_chat_template(std::string source,
                                                            TemplateBudget budget) {
  if (source.size() > kMaxTemplateBytes) {
    return make_error(ErrorCode::kInvalidArgument, "The chat template is larger than 1 MiB.");
  }
  return guarded([&]() -> std::unique_ptr<ChatTemplate> {
    jinja::Program program = jinja::parse_template(source, budget.max_depth);
    return std::make_unique<JinjaChatTemplate>(std::move(source), std::move(program), budget);
  });
}

std::string_view default_chat_template() {
  return "{% for message in messages %}"
         "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
         "{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
}

}  // namespace quire
