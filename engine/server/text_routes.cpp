#include <nlohmann/json.hpp>

#include "engine/server/api_context.h"
#include "engine/server/prompts.h"

namespace quire {
namespace {

using ModelPtr = std::shared_ptr<HostedModel>;

ApiError wrong_field(const char* name, const char* what) {
  return {.status = 400,
          .message = std::string("'") + name + "' " + what + ".",
          .code = "invalid_value",
          .param = name};
}

bool is_utf8(std::string_view text) {
  // The serialiser throws on a broken sequence; asking it keeps one definition of valid.
  try {
    Json(std::string(text)).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Json piece_of(const Tokenizer& tokenizer, TokenId id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  const std::string text(bytes.empty() ? tokenizer.token_text(id) : bytes);
  if (is_utf8(text)) return text;
  Json list = Json::array();
  for (const unsigned char byte : text) list.push_back(static_cast<int>(byte));
  return list;
}

// Serves both llama.cpp's fields (content, add_special, parse_special, with_pieces) and vLLM's
// (prompt, add_special_tokens).
HttpReply tokenize(const ApiContext&, const HostedModel& model, const Json& body) {
  FieldReader fields(body);
  std::string text;
  EncodeOptions options;
  bool parse_special = true, with_pieces = false;
  if (fields.text("prompt", text)) {
    options.add_special = true;
  } else if (!fields.text("content", text)) {
    fields.fail("content", "is missing");
  }
  fields.boolean("add_special", options.add_special);
  fields.boolean("add_special_tokens", options.add_special);
  fields.boolean("parse_special", parse_special);
  fields.boolean("with_pieces", with_pieces);
  if (fields.error()) return error_reply(*fields.error());
  options.specials =
      parse_special ? EncodeOptions::Specials::kEverywhere : EncodeOptions::Specials::kNowhere;
  const auto ids = model.tokenizer->encode(text, options);
  Json tokens = Json::array();
  for (const TokenId id : ids) {
    tokens.push_back(with_pieces ? Json{{"id", id}, {"piece", piece_of(*model.tokenizer, id)}}
                                 : Json(id));
  }
  return {.body = dump_json({{"tokens", std::move(tokens)},
                             {"count", ids.size()},
                             {"max_model_len", model.engine->config().effective_context()}})};
}

HttpReply detokenize(const ApiContext&, const HostedModel& model, const Json& body) {
  const auto list = body.find("tokens");
  if (list == body.end() || !list->is_array()) {
    return error_reply(wrong_field("tokens", "must be a list of token ids"));
  }
  std::vector<TokenId> ids;
  if (auto refused = read_token_ids(*list, "tokens", model.tokenizer->vocab_size(), ids)) {
    return error_reply(*refused);
  }
  const std::string text = model.tokenizer->decode(ids, false);
  return {.body = dump_json({{"content", text}, {"prompt", text}})};
}

HttpReply apply_template(const ApiContext& context, const HostedModel& model, const Json& body) {
  ChatRequest request;
  if (auto refused = read_chat_request(body, context.limits, model.engine->vocab_size(), request)) {
    return error_reply(*refused);
  }
  const auto rendered = render_chat(model, request);
  if (const auto* error = std::get_if<ApiError>(&rendered)) return error_reply(*error);
  return {.body = dump_json({{"prompt", std::get<RenderedPrompt>(rendered).text}})};
}

using Body = HttpReply (*)(const ApiContext&, const HostedModel&, const Json&);

RouteHandler with_model_and_json(const ApiContext& context, Body body_handler) {
  return [&context, body_handler](Exchange& exchange) {
    const auto found = require_model(context);
    if (const auto* error = std::get_if<ApiError>(&found)) return error_reply(*error);
    Json body;
    if (auto refused = parse_json_object(exchange.request().body, context.limits, body)) {
      return error_reply(*refused);
    }
    return body_handler(context, *std::get<ModelPtr>(found), body);
  };
}

}  // namespace

void add_text_routes(Router& router, ApiContext& context) {
  constexpr std::pair<const char*, Body> kRoutes[] = {
      {"/tokenize", tokenize}, {"/detokenize", detokenize}, {"/apply-template", apply_template}};
  for (const auto& [path, body] : kRoutes) {
    router.add({.method = "POST", .path = path, .handler = with_model_and_json(context, body)});
  }
}

}  // namespace quire
