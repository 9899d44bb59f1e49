#pragma once

#include "engine/server/generation_options.h"
#include "engine/text/chat_template.h"

namespace quire {

// A chat request, read and checked, before it is rendered.
struct ChatRequest {
  GenerationOptions options;
  std::string messages_json;  // normalised, see chat_messages.h
  bool add_generation_prompt = true;
  std::string template_variables_json;  // "" = none
};

// Tools are accepted, and not offered to the model: it answers in text, which a tool choice of
// "auto" allows. A choice that demands a call is refused. A template from the request is refused.
std::optional<ApiError> read_chat_request(const Json& body, const ServerLimits& limits,
                                          int vocab_size, ChatRequest& request);

}  // namespace quire
