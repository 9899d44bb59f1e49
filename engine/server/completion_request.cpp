#include "engine/server/completion_request.h"

#include <nlohmann/json.hpp>

namespace quire {
namespace {

constexpr int kDefaultMaxTokens = 16;  // the API's own default for this route
constexpr int kMaxLogprobs = 20;

ApiError bad_prompt(const char* what) {
  return {.status = 400,
          .message = std::string("'prompt' ") + what + ".",
          .code = "invalid_value",
          .param = "prompt"};
}

void refuse_unsupported(FieldReader& fields) {
  bool echo = false;
  if (fields.boolean("echo", echo) && echo) {
    fields.fail("echo", "must be false: this server does not repeat the prompt");
  }
  std::int64_t best_of = 1;
  if (fields.integer("best_of", 0, 20, best_of) && best_of > 1) {
    fields.fail("best_of", "must be 1: this server makes one choice per request");
  }
  std::string suffix;
  if (fields.text("suffix", suffix) && !suffix.empty()) {
    fields.fail("suffix",
                "is not supported by this server; put the model's fill-in-the-middle "
                "tokens into the prompt");
  }
}

std::optional<ApiError> read_prompt(const Json* prompt, int vocab_size,
                                    CompletionRequest& request) {
  if (prompt == nullptr) return bad_prompt("is missing");
  if (prompt->is_string()) {
    request.text = prompt->get<std::string>();
    return std::nullopt;
  }
  if (!prompt->is_array() || prompt->empty()) {
    return bad_prompt("must be a string or a list that is not empty");
  }
  const Json& first = prompt->front();
  if (first.is_number()) {
    request.has_tokens = true;
    return read_token_ids(*prompt, "prompt", vocab_size, request.tokens);
  }
  if (!first.is_string() && !first.is_array()) {
    return bad_prompt("must hold strings or token ids");
  }
  if (prompt->size() > 1) return bad_prompt("must hold one prompt; send several requests instead");
  if (first.is_array() && (first.empty() || !first.front().is_number())) {
    return bad_prompt("must hold strings or token ids");
  }
  return read_prompt(&first, vocab_size, request);
}

}  // namespace

std::optional<ApiError> read_token_ids(const Json& list, std::string_view name, int vocab_size,
                                       std::vector<TokenId>& ids) {
  ids.clear();
  ids.reserve(list.size());
  for (const auto& entry : list) {
    const auto id = exact_integer(entry);
    if (!id || *id < 0 || *id >= vocab_size) {
      return ApiError{.status = 400,
                      .message = "'" + std::string(name) +
                                 "' holds something that is not a token id of this model (0 to " +
                                 std::to_string(vocab_size - 1) + ").",
                      .code = "invalid_value",
                      .param = std::string(name)};
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return std::nullopt;
}

std::optional<ApiError> read_completion_request(const Json& body, const ServerLimits& limits,
                                                int vocab_size, CompletionRequest& request) {
  FieldReader fields(body);
  std::string model;
  fields.text("model", model);
  read_generation_options(fields, limits, vocab_size, request.options);
  request.options.params.max_tokens = kDefaultMaxTokens;
  read_max_tokens(fields, request.options.params.max_tokens);
  std::int64_t logprobs = 0;
  if (fields.integer("logprobs", 0, kMaxLogprobs, logprobs)) {
    request.options.params.logprobs = static_cast<int>(logprobs);
  }
  refuse_unsupported(fields);
  if (fields.error()) return fields.error();
  return read_prompt(fields.find("prompt"), vocab_size, request);
}

}  // namespace quire
