#pragma once

#include <string>
#include <vector>

#include "engine/core/request.h"

namespace quire {

// Whether a request ends at its newest output token. Pure functions.

struct StopDecision {
  FinishReason reason = FinishReason::kNone;
  std::string stop_reason;  // the stop id as text; empty for EOS and for kLength
};

// Enough output for the stop rules (ids, EOS, strings) to end it.
inline bool stops_allowed(const Request& request) {
  return request.num_output_tokens() >= request.params.min_tokens;
}
// EOS or a stop id, once min_tokens are there.
StopDecision stop_by_token(const Request& request);
// max_tokens or the end of the context.
StopDecision stop_by_length(const Request& request, int effective_context);
// Ids output token number `output_index` must not be: those that would end the request, while it is
// too short to end.
std::vector<TokenId> banned_tokens(const Request& request, int output_index);

}  // namespace quire
