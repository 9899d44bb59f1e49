#pragma once

#include <variant>
#include <vector>

#include "engine/model_host.h"
#include "engine/server/chat_request.h"
#include "engine/server/completion_request.h"

namespace quire {

std::variant<RenderedPrompt, ApiError> render_chat(const HostedModel& model,
                                                   const ChatRequest& request);

// Special tokens are matched only in what the template wrote: those spelled out in a message are
// plain text.
std::vector<TokenId> encode_chat(const HostedModel& model, const RenderedPrompt& prompt);

// Raw prompts may spell special tokens (fill-in-the-middle clients do).
std::vector<TokenId> encode_completion(const HostedModel& model, const CompletionRequest& request);

}  // namespace quire
