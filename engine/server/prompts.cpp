#include "engine/server/prompts.h"

#include <ctime>

namespace quire {
namespace {

// Noon of today's local date, on the calendar templates format (UTC): one that prints the date
// gives the same prompt, and so the same cached prefix, all day.
double stable_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  local.tm_hour = 12;
  local.tm_min = local.tm_sec = 0;
  return static_cast<double>(timegm(&local));
}

std::string special_text(const Tokenizer& tokenizer, TokenId id) {
  return id < 0 ? std::string() : std::string(tokenizer.token_text(id));
}

}  // namespace

std::variant<RenderedPrompt, ApiError> render_chat(const HostedModel& model,
                                                   const ChatRequest& request) {
  if (model.chat_template == nullptr) {
    return ApiError{.status = 501,
                    .message = "This model has no chat template; use /v1/completions.",
                    .code = "no_chat_template"};
  }
  ChatTemplateOptions options;
  options.add_generation_prompt = request.add_generation_prompt;
  options.bos_token = special_text(*model.tokenizer, model.tokenizer->bos_id());
  options.eos_token = special_text(*model.tokenizer, model.tokenizer->eos_id());
  options.extra_variables_json = request.template_variables_json;
  options.now_s = stable_now();
  auto rendered = model.chat_template->render_json(request.messages_json, options);
  if (rendered.ok()) return std::move(rendered).value();
  // Whatever the template objects to, repeating the request will not help.
  return ApiError{.status = 400,
                  .message = rendered.error().message,
                  .code = "chat_template_error",
                  .param = "messages"};
}

std::vector<TokenId> encode_chat(const HostedModel& model, const RenderedPrompt& prompt) {
  EncodeOptions options;
  options.specials = EncodeOptions::Specials::kRanges;
  options.special_ranges = prompt.template_ranges;
  return model.tokenizer->encode(prompt.text, options);
}

std::vector<TokenId> encode_completion(const HostedModel& model, const CompletionRequest& request) {
  if (request.has_tokens) return request.tokens;
  EncodeOptions options;
  options.add_special = true;
  options.specials = EncodeOptions::Specials::kEverywhere;
  return model.tokenizer->encode(request.text, options);
}

}  // namespace quire
