#include "engine/server/http_error.h"

#include <nlohmann/json.hpp>

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

std::string default_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kContextLengthExceeded:
      return 400;
    case ErrorCode::kModelNotFound:
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kQueueFull:
      return 429;
    case ErrorCode::kNotReady:
    case ErrorCode::kCancelled:
      return 503;
    case ErrorCode::kUnsupportedModel:
      return 501;
    case ErrorCode::kBadModelFile:
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kAddressInUse:
    case ErrorCode::kDeviceFailure:
    case ErrorCode::kIo:
      return 500;
  }
  return 500;
}

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError answer{.status = status_of(error.code), .message = error.message};
  switch (error.code) {
    case ErrorCode::kContextLengthExceeded:
      answer.code = "context_length_exceeded";
      break;
    case ErrorCode::kModelNotFound:
      answer.code = "model_not_found";
      break;
    case ErrorCode::kQueueFull:
      answer.code = "queue_full";
      answer.retry_after_s = 1;
      break;
    case ErrorCode::kNotReady:
    case ErrorCode::kCancelled:
      answer.retry_after_s = 2;
      break;
    default:
      break;
  }
  return answer;
}

ApiError context_length_error(std::size_t num_prompt_tokens, int context) {
  return {.status = 400,
          .message = "This model's maximum context length is " + std::to_string(context) +
                     " tokens, but the prompt has " + std::to_string(num_prompt_tokens) +
                     ": the request exceeds the available context size. Shorten it, or load the "
                     "model with a larger context.",
          .code = "context_length_exceeded",
          .param = "",
          .type = "exceed_context_size_error",
          .numbers = {{"n_prompt_tokens", static_cast<std::int64_t>(num_prompt_tokens)},
                      {"n_ctx", context}}};
}

std::string error_json(const ApiError& error) {
  Json object = {{"message", error.message},
                 {"type", error.type.empty() ? default_type(error.status) : error.type},
                 {"param", text_or_null(error.param)},
                 {"code", text_or_null(error.code)}};
  for (const auto& [name, number] : error.numbers) object[name] = number;
  return Json{{"error", std::move(object)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpReply error_reply(const ApiError& error) {
  HttpReply reply{.status = error.status, .headers = error.headers, .body = error_json(error)};
  if (error.retry_after_s > 0) {
    reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  }
  // The SDKs repeat every 5xx; only the transient one is worth it.
  if (error.status >= 500 && error.status != 503) {
    reply.headers.emplace_back("x-should-retry", "false");
  }
  return reply;
}

}  // namespace quire
