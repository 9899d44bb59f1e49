#include "engine/server/chat_request.h"

#include <nlohmann/json.hpp>

#include "engine/server/chat_messages.h"

namespace quire {
namespace {

constexpr int kMaxTopLogprobs = 20;
constexpr std::size_t kMaxTools = 128;

void read_logprobs(FieldReader& fields, SamplingParams& params) {
  bool wanted = false;
  fields.boolean("logprobs", wanted);
  std::int64_t top = 0;
  const bool has_top = fields.integer("top_logprobs", 0, kMaxTopLogprobs, top);
  if (has_top && top > 0 && !wanted) fields.fail("top_logprobs", "needs 'logprobs' to be true");
  if (wanted) params.logprobs = static_cast<int>(top);
}

void check_tools(FieldReader& fields) {
  if (const Json* tools = fields.find("tools")) {
    if (!tools->is_array() || tools->size() > kMaxTools) {
      return fields.fail("tools", "must be a list of at most 128 tools");
    }
    for (const auto& tool : *tools) {
      if (!tool.is_object()) return fields.fail("tools", "must hold objects");
    }
  }
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == Json("auto") || *choice == Json("none")) return;
  fields.fail("tool_choice", "must be 'auto' or 'none': this server cannot force a tool call");
}

void read_template_fields(FieldReader& fields, ChatRequest& request) {
  if (fields.find("chat_template") != nullptr) {
    fields.fail("chat_template", "may not be sent: the model's own template is used");
  }
  fields.boolean("add_generation_prompt", request.add_generation_prompt);
  bool continue_message = false;
  if (fields.boolean("continue_final_message", continue_message) && continue_message) {
    fields.fail("continue_final_message", "is not supported by this server");
  }
  Json variables = Json::object();
  std::string effort;
  if (fields.text("reasoning_effort", effort)) {
    variables["reasoning_effort"] = effort;
    if (effort == "none") variables["enable_thinking"] = false;
  }
  if (const Json* extra = fields.find("chat_template_kwargs")) {
    if (!extra->is_object()) return fields.fail("chat_template_kwargs", "must be an object");
    for (const auto& [name, value] : extra->items()) {
      for (const char* own : {"chat_template", "tokenize", "tools", "messages"}) {
        if (name == own) fields.fail("chat_template_kwargs", "may not set '" + name + "'");
      }
      variables[name] = value;
    }
  }
  if (!variables.empty()) request.template_variables_json = dump_json(variables);
}

}  // namespace

std::optional<ApiError> read_chat_request(const Json& body, const ServerLimits& limits,
                                          int vocab_size, ChatRequest& request) {
  FieldReader fields(body);
  std::string model;
  fields.text("model", model);
  read_generation_options(fields, limits, vocab_size, request.options);
  read_max_tokens(fields, request.options.params.max_tokens);
  read_logprobs(fields, request.options.params);
  check_tools(fields);
  read_template_fields(fields, request);
  const Json* messages = fields.find("messages");
  if (messages == nullptr) fields.fail("messages", "is missing");
  if (fields.error()) return fields.error();
  Json normalised;
  if (auto refused = normalise_messages(*messages, limits, normalised)) return refused;
  request.messages_json = dump_json(normalised);
  return std::nullopt;
}

}  // namespace quire
