#include "engine/core/stop_rules.h"

#include <algorithm>

namespace quire {

StopDecision stop_by_token(const Request& request) {
  if (!stops_allowed(request)) return {};
  const TokenId token = request.token_ids.back();
  if (std::ranges::find(request.params.stop_token_ids, token) !=
      request.params.stop_token_ids.end())
    return {FinishReason::kStop, std::to_string(token)};
  if (!request.params.ignore_eos &&
      std::ranges::find(request.eos_token_ids, token) != request.eos_token_ids.end())
    return {FinishReason::kStop, {}};
  return {};
}

StopDecision stop_by_length(const Request& request, int effective_context) {
  if (request.num_output_tokens() >= request.params.max_tokens ||
      request.num_tokens() >= effective_context)
    return {FinishReason::kLength, {}};
  return {};
}

std::vector<TokenId> banned_tokens(const Request& request, int output_index) {
  if (output_index + 1 >= request.params.min_tokens) return {};
  std::vector<TokenId> banned = request.params.stop_token_ids;
  if (!request.params.ignore_eos)
    banned.insert(banned.end(), request.eos_token_ids.begin(), request.eos_token_ids.end());
  return banned;
}

}  // namespace quire
