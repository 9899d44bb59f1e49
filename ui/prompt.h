#pragma once

#include <vector>

#include "engine/model_host.h"
#include "engine/result.h"
#include "ui/chat_types.h"

namespace quire {

// Renders a conversation with the model's chat template and tokenises it. Special tokens are
// matched only where the template wrote them, never in what people typed. Slow for long
// conversations: not for the GUI thread.
Result<std::vector<TokenId>> tokenizeConversation(const HostedModel& model,
                                                  const Conversation& conversation);

}  // namespace quire
