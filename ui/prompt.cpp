#include "ui/prompt.h"

#include <chrono>

namespace quire {
namespace {

ChatMessage turn(const char* role, const QString& content) {
  return {role, content.toStdString(), {}};
}

std::vector<ChatMessage> turns(const Conversation& conversation) {
  std::vector<ChatMessage> messages;
  if (!conversation.settings.systemPrompt.trimmed().isEmpty()) {
    messages.push_back(turn("system", conversation.settings.systemPrompt));
  }
  for (const Message& message : conversation.messages) {
    if (message.role == Role::User) messages.push_back(turn("user", message.content));
    // An answer that failed before its first word is no turn of the conversation.
    if (message.role == Role::Assistant && !message.content.isEmpty()) {
      messages.push_back(turn("assistant", message.content));
    }
  }
  return messages;
}

std::string token(const Tokenizer& tokenizer, TokenId id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

}  // namespace

Result<std::vector<TokenId>> tokenizeConversation(const HostedModel& model,
                                                  const Conversation& conversation) {
  if (model.tokenizer == nullptr || model.chat_template == nullptr) {
    return make_error(ErrorCode::kUnsupportedModel,
                      "This model has no chat template, so it cannot chat.");
  }
  ChatTemplateOptions options;
  options.bos_token = token(*model.tokenizer, model.tokenizer->bos_id());
  options.eos_token = token(*model.tokenizer, model.tokenizer->eos_id());
  options.now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  QUIRE_TRY(const RenderedPrompt prompt, model.chat_template->render(turns(conversation), options));
  EncodeOptions encoding;
  encoding.specials = EncodeOptions::Specials::kRanges;
  encoding.special_ranges = prompt.template_ranges;
  return model.tokenizer->encode(prompt.text, encoding);
}

}  // namespace quire
