#include "engine/server/chat_messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace quire {
namespace {

constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                       "assistant", "tool",      "function"};
constexpr std::size_t kMaxToolCalls = 128;

void append_part(FieldReader& fields, const Json& part, std::string& content) {
  if (part.is_string()) {
    content += part.get_ref<const std::string&>();
    return;
  }
  const auto type = part.is_object() ? part.find("type") : part.end();
  if (!part.is_object() || type == part.end() || !type->is_string()) {
    return fields.fail("content", "has a part that is not an object with a 'type'");
  }
  const std::string kind = type->get<std::string>();
  if (kind != "text" && kind != "input_text" && kind != "output_text" && kind != "refusal") {
    return fields.fail("content",
                       "has a part that is not text; this model reads text only, no "
                       "images, audio or files");
  }
  const auto text = part.find(kind == "refusal" ? "refusal" : "text");
  if (text == part.end() || !text->is_string()) {
    return fields.fail("content", "has a text part without a string in 'text'");
  }
  content += text->get_ref<const std::string&>();
}

std::string read_content(FieldReader& fields, bool required) {
  std::string content;
  const Json* value = fields.find("content");
  if (value == nullptr) {
    if (required) fields.fail("content", "is missing");
  } else if (value->is_string()) {
    content = value->get<std::string>();
  } else if (value->is_array()) {
    for (std::size_t i = 0; i < value->size(); ++i) {
      if (i > 0) content += '\n';
      append_part(fields, (*value)[i], content);
    }
  } else {
    fields.fail("content", "must be a string or a list of text parts");
  }
  return content;
}

// Clients send arguments as JSON text; templates walk them as an object. What does not parse stays
// the text it was.
void open_arguments(Json& call, const ServerLimits& limits) {
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) return;
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || !arguments->is_string()) return;
  Json parsed;
  if (!parse_json_object(arguments->get_ref<const std::string&>(), limits, parsed)) {
    *arguments = std::move(parsed);
  }
}

void read_tool_calls(FieldReader& fields, const ServerLimits& limits, Json& message) {
  const Json* calls = fields.find("tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array() || calls->size() > kMaxToolCalls) {
    return fields.fail("tool_calls", "must be a list of at most 128 calls");
  }
  Json result = Json::array();
  for (Json call : *calls) {
    if (!call.is_object()) return fields.fail("tool_calls", "must hold objects");
    if (call.contains("id") && call["id"].is_null()) call.erase("id");
    open_arguments(call, limits);
    result.push_back(std::move(call));
  }
  if (!result.empty()) message["tool_calls"] = std::move(result);
}

std::optional<ApiError> read_message(const Json& source, std::size_t place,
                                     const ServerLimits& limits, Json& message) {
  FieldReader fields(source, "messages[" + std::to_string(place) + "].");
  std::string role;
  if (!fields.text("role", role)) {
    fields.fail("role", "is missing");
  } else if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
    fields.fail("role", "must be system, developer, user, assistant or tool");
  }
  message = {{"role", role == "developer" ? "system" : role == "function" ? "tool" : role}};
  const bool required = role != "assistant" && role != "tool" && role != "function";
  message["content"] = read_content(fields, required);
  read_tool_calls(fields, limits, message);
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    std::string text;
    if (fields.text(name, text)) message[name] = text;
  }
  return fields.error();
}

}  // namespace

std::optional<ApiError> normalise_messages(const Json& messages, const ServerLimits& limits,
                                           Json& result) {
  if (!messages.is_array() || messages.empty() || messages.size() > limits.max_messages) {
    return ApiError{.status = 400,
                    .message = "'messages' must be a list of 1 to " +
                               std::to_string(limits.max_messages) + " messages.",
                    .code = "invalid_value",
                    .param = "messages"};
  }
  result = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) {
      return ApiError{.status = 400,
                      .message = "'messages[" + std::to_string(i) + "]' must be an object.",
                      .code = "invalid_value",
                      .param = "messages"};
    }
    Json message;
    if (auto refused = read_message(messages[i], i, limits, message)) return refused;
    const bool developer = messages[i]["role"] == "developer";
    if (developer && !result.empty() && result.back()["role"] == "system") {
      // Templates that want one system message would refuse a second.
      auto& content = result.back()["content"].get_ref<std::string&>();
      content += "\n" + message["content"].get_ref<const std::string&>();
    } else {
      result.push_back(std::move(message));
    }
  }
  return std::nullopt;
}

}  // namespace quire
