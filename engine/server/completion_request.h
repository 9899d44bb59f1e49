#pragma once

#include <vector>

#include "engine/core/ids.h"
#include "engine/server/generation_options.h"

namespace quire {

// A raw completion request, read and checked. One prompt: text, or token ids.
struct CompletionRequest {
  GenerationOptions options;
  bool has_tokens = false;
  std::string text;
  std::vector<TokenId> tokens;
};

std::optional<ApiError> read_completion_request(const Json& body, const ServerLimits& limits,
                                                int vocab_size, CompletionRequest& request);

// A list of ids, each in [0, vocab_size).
std::optional<ApiError> read_token_ids(const Json& list, std::string_view name, int vocab_size,
                                       std::vector<TokenId>& ids);

}  // namespace quire
