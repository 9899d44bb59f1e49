#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/ids.h"
#include "engine/sampling/params.h"

namespace quire {

enum class RequestStatus : std::uint8_t {
  kWaiting,  // never scheduled
  kRunning,
  kPreempted,  // gave its blocks back; waits ahead of its equals that never ran
  kSwapped,    // the same, with its keys and values in host memory
  kFinished,
};

enum class FinishReason : std::uint8_t {
  kNone,
  kStop,     // EOS, stop id or stop string
  kLength,   // max_tokens or the context's end
  kAborted,  // client gone, Stop pressed, shutdown
  kError,    // the device failed
};

// Everything the engine knows of one request. Its whole scheduling state is `token_ids` and
// `num_computed_tokens`; the newest token is always uncomputed, so a decode step computes exactly
// it. Engine thread only.
struct Request {
  Request(RequestId request_id, std::vector<TokenId> prompt, SamplingParams sampling)
      : id(request_id),
        token_ids(std::move(prompt)),
        num_prompt_tokens(static_cast<int>(token_ids.size())),
        params(std::move(sampling)) {}

  // What planning a step reads of every request comes first, close together.
  RequestId id;
  int priority = 0;  // lower runs first under the priority policy
  RequestStatus status = RequestStatus::kWaiting;
  FinishReason finish_reason = FinishReason::kNone;
  bool outdated = false;  // holds keys and values from before a cache reset; none is published
  std::vector<TokenId> token_ids;  // prompt, then output
  int num_prompt_tokens;
  int num_computed_tokens = 0;  // tokens whose K/V are in the cache
  int num_computed_peak = 0;    // most that was ever computed; below it work is done again
  int num_placeholders = 0;     // trailing tokens whose values are still being computed
  int num_preemptions = 0;
  int num_displaced = 0;                // preemptions by a request of higher priority
  std::vector<TokenId> spec_token_ids;  // drafts to verify in the next step
  // Chained keys: the root's, then one per full block. Extended by the block manager.
  std::vector<BlockHash> block_hashes;
  int num_cached_tokens = 0;  // computed tokens that came from the prefix cache at first admission
  int num_overtaken = 0;      // admissions of later arrivals that passed it while it waited

  SamplingParams params;  // max_tokens is already clamped to the effective context, seed is set
  std::string label;      // who asked ("chat", "api chatcmpl-..."), for views and logs
  double arrival_time_s = 0;
  // Whatever else changes activations (adapter load, image hashes); part of every block hash.
  std::string cache_key;
  // Keeps the prefixes of different tenants apart; part of every block hash.
  std::string cache_salt;
  std::vector<TokenId> eos_token_ids;
  std::string stop_reason;  // the stop string or id that ended it; empty otherwise

  double first_scheduled_time_s = -1;  // -1: not yet
  double first_token_time_s = -1;
  double last_token_time_s = -1;

  int num_tokens() const { return static_cast<int>(token_ids.size()); }
  int num_output_tokens() const { return num_tokens() - num_prompt_tokens; }
  int num_tokens_with_spec() const {
    return num_tokens() + static_cast<int>(spec_token_ids.size());
  }
  // Has output and exactly one uncomputed token. A recompute counts as prefill.
  bool decoding() const {
    return num_output_tokens() > 0 && num_tokens() - num_computed_tokens == 1;
  }
  bool finished() const { return status == RequestStatus::kFinished; }
};

}  // namespace quire
