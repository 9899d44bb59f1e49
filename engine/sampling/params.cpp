#include "engine/sampling/params.h"

#include <algorithm>

namespace quire {
namespace {

// Bounds on what one request may make every step look at.
constexpr std::size_t kMaxStopIds = 1024;
constexpr std::size_t kMaxStopStrings = 64;
constexpr std::size_t kMaxStopBytes = 4096;
constexpr int kMaxLogprobs = 20;

Status refuse(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

Status check_stops(const SamplingParams& params, int vocab_size) {
  if (params.stop_token_ids.size() > kMaxStopIds)
    return refuse("stop_token_ids has more than " + std::to_string(kMaxStopIds) + " entries.");
  for (const TokenId id : params.stop_token_ids)
    if (id < 0 || id >= vocab_size)
      return refuse("stop_token_ids has " + std::to_string(id) +
                    ", outside this model's vocabulary of " + std::to_string(vocab_size) +
                    " tokens.");
  if (params.stop.size() > kMaxStopStrings)
    return refuse("stop has more than " + std::to_string(kMaxStopStrings) + " strings.");
  for (const std::string& text : params.stop) {
    if (text.empty()) return refuse("stop has an empty string.");
    if (text.size() > kMaxStopBytes)
      return refuse("stop has a string longer than " + std::to_string(kMaxStopBytes) + " bytes.");
  }
  return Ok{};
}

}  // namespace

// Written so that NaN fails every comparison.
Status validate(const SamplingParams& params, int vocab_size) {
  if (params.max_tokens < -1) return refuse("max_tokens must be 0 or more.");
  if (params.min_tokens < 0) return refuse("min_tokens must be 0 or more.");
  if (params.max_tokens >= 0 && params.min_tokens > params.max_tokens)
    return refuse("min_tokens must not exceed max_tokens.");
  if (!(params.temperature >= 0.0f && params.temperature <= 100.0f))
    return refuse("temperature must be between 0 and 100.");
  if (params.top_k < 0) return refuse("top_k must be 0 or more.");
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f))
    return refuse("top_p must be above 0 and at most 1.");
  if (!(params.min_p >= 0.0f && params.min_p <= 1.0f))
    return refuse("min_p must be between 0 and 1.");
  if (!(params.repetition_penalty > 0.0f && params.repetition_penalty <= 100.0f))
    return refuse("repetition_penalty must be above 0 and at most 100.");
  if (!(params.presence_penalty >= -2.0f && params.presence_penalty <= 2.0f))
    return refuse("presence_penalty must be between -2 and 2.");
  if (!(params.frequency_penalty >= -2.0f && params.frequency_penalty <= 2.0f))
    return refuse("frequency_penalty must be between -2 and 2.");
  if (params.logprobs && (*params.logprobs < 0 || *params.logprobs > kMaxLogprobs))
    return refuse("logprobs must be between 0 and " + std::to_string(kMaxLogprobs) + ".");
  return check_stops(params, vocab_size);
}

}  // namespace quire
