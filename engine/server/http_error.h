#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/result.h"
#include "engine/server/http_types.h"

namespace quire {

// An answer that is an error. Becomes {"error":{message,type,param,code}}, always with all four.
struct ApiError {
  int status = 400;
  std::string message = {};
  std::string code = {};   // "" = null
  std::string param = {};  // the offending field; "" = null
  std::string type = {};   // "" = the status's usual one
  int retry_after_s = 0;   // > 0: sent as Retry-After
  std::vector<std::pair<std::string, std::int64_t>> numbers =
      {};  // further members of the error object
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// The one place where an engine error gets its HTTP status.
ApiError to_api_error(const Error& error);

// The prompt does not fit. Carries both numbers and the phrases clients look for to compact a chat.
ApiError context_length_error(std::size_t num_prompt_tokens, int context);

std::string error_json(const ApiError& error);
HttpReply error_reply(const ApiError& error);

}  // namespace quire
