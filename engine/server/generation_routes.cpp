#include <chrono>
#include <nlohmann/json.hpp>

#include "engine/server/answer_shapes.h"
#include "engine/server/api_context.h"
#include "engine/server/prompts.h"

namespace quire {
namespace {

using ModelPtr = std::shared_ptr<HostedModel>;

AnswerHead make_head(const char* prefix, const Exchange& exchange, const HostedModel& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {prefix + exchange.id(), std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          model.id};
}

// Submits and answers; everything that can be refused is, before the head of the answer.
HttpReply run(ApiContext& context, Exchange& exchange, ModelPtr model,
              const GenerationOptions& options, std::vector<TokenId> prompt,
              std::unique_ptr<AnswerShape> shape) {
  GenerationRequest request;
  request.prompt_token_ids = std::move(prompt);
  request.params = options.params;
  request.label = "api";
  request.priority = options.priority;
  request.cache_salt = options.cache_salt;
  exchange.log().prompt_tokens = static_cast<int>(request.prompt_token_ids.size());
  auto started = Generation::start(std::move(model), std::move(request),
                                   context.limits.max_unread_bytes, context.active_generations);
  if (const auto* error = std::get_if<ApiError>(&started)) return error_reply(*error);
  return answer(exchange, {.generation = std::get<std::shared_ptr<Generation>>(std::move(started)),
                           .shape = std::move(shape),
                           .stream = options.stream,
                           .include_usage = options.include_usage,
                           .logprobs = options.params.logprobs.has_value(),
                           .keep_alive_comment_s = context.limits.keep_alive_comment_s});
}

HttpReply chat(ApiContext& context, Exchange& exchange, ModelPtr model, const Json& body) {
  ChatRequest request;
  if (auto refused =
          read_chat_request(body, context.limits, model->engine->vocab_size(), request)) {
    return error_reply(*refused);
  }
  auto rendered = render_chat(*model, request);
  if (const auto* error = std::get_if<ApiError>(&rendered)) return error_reply(*error);
  auto prompt = encode_chat(*model, std::get<RenderedPrompt>(rendered));
  auto shape = make_chat_shape(make_head("chatcmpl-", exchange, *model), *model->tokenizer,
                               request.options.params.logprobs.has_value());
  return run(context, exchange, std::move(model), request.options, std::move(prompt),
             std::move(shape));
}

HttpReply completion(ApiContext& context, Exchange& exchange, ModelPtr model, const Json& body) {
  CompletionRequest request;
  if (auto refused =
          read_completion_request(body, context.limits, model->engine->vocab_size(), request)) {
    return error_reply(*refused);
  }
  auto prompt = encode_completion(*model, request);
  auto shape = make_completion_shape(make_head("cmpl-", exchange, *model), *model->tokenizer,
                                     request.options.params.logprobs.has_value());
  return run(context, exchange, std::move(model), request.options, std::move(prompt),
             std::move(shape));
}

using Body = HttpReply (*)(ApiContext&, Exchange&, ModelPtr, const Json&);

// Any model name is accepted and answered by the loaded model: there is only one, and clients send
// placeholders. The answer carries the real name.
RouteHandler with_model_and_json(ApiContext& context, Body body_handler) {
  return [&context, body_handler](Exchange& exchange) {
    auto found = require_model(context);
    if (const auto* error = std::get_if<ApiError>(&found)) return error_reply(*error);
    Json body;
    if (auto refused = parse_json_object(exchange.request().body, context.limits, body)) {
      return error_reply(*refused);
    }
    return body_handler(context, exchange, std::get<ModelPtr>(std::move(found)), body);
  };
}

}  // namespace

void add_generation_routes(Router& router, ApiContext& context) {
  router.add({.method = "POST",
              .path = "/chat/completions",
              .handler = with_model_and_json(context, chat)});
  router.add({.method = "POST",
              .path = "/completions",
              .handler = with_model_and_json(context, completion)});
}

}  // namespace quire
