#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/ids.h"
#include "engine/result.h"

namespace quire {

// How a request's tokens are chosen and when it ends. Ranges are checked by `validate`.
struct SamplingParams {
  int max_tokens =
      -1;  // output tokens; -1: until the context is full. 0 is valid: nothing is sampled
  int min_tokens = 0;  // stop rules (ids, EOS, strings) do not end the request before this many
  float temperature = 1.0f;           // >= 0; 0 = greedy
  int top_k = 0;                      // keep the k likeliest; 0 = all
  float top_p = 1.0f;                 // (0, 1]; keep the smallest set whose probability reaches p
  float min_p = 0.0f;                 // [0, 1]; drop tokens below min_p x the likeliest
  float repetition_penalty = 1.0f;    // > 0; over prompt and output, as in Hugging Face
  float presence_penalty = 0.0f;      // [-2, 2]; over output tokens, as in the OpenAI API
  float frequency_penalty = 0.0f;     // [-2, 2]
  std::optional<std::uint64_t> seed;  // absent: the engine draws one, and it is recorded
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> stop;  // stop strings; the match and what follows are not delivered
  std::optional<int> logprobs;    // alternatives per output token, 0..20; absent = none

  bool greedy() const { return temperature == 0.0f; }
  bool has_penalties() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
};

// One sentence naming the first field out of range.
Status validate(const SamplingParams& params, int vocab_size);

}  // namespace quire
