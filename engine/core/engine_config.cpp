#include "engine/core/engine_config.h"

#include <algorithm>
#include <string>

namespace quire {
namespace {

struct Range {
  const char* name;
  long long value, least, most;
};

// Generous bounds that keep every product of two fields within 64 bits.
constexpr long long kMaxBlocks = 1LL << 28;
constexpr long long kMaxBlockSize = 4096;
constexpr long long kMaxTokens = 1LL << 28;
constexpr long long kMaxRequests = 1LL << 20;
constexpr long long kMaxItlMs = 3600 * 1000;

std::string number(long long value) {
  return std::to_string(value);
}

}  // namespace

Status validate(const EngineConfig& config) {
  const Range ranges[] = {
      {"num_blocks", config.num_blocks, 1, kMaxBlocks},
      {"block_size", config.block_size, 1, kMaxBlockSize},
      {"max_num_seqs", config.max_num_seqs, 1, kMaxRequests},
      {"max_num_batched_tokens", config.max_num_batched_tokens, 1, kMaxTokens},
      {"max_model_len", config.max_model_len, 1, kMaxTokens},
      {"max_queue", config.max_queue, 1, kMaxTokens},
      {"long_prefill_token_threshold", config.long_prefill_token_threshold, 0, kMaxTokens},
      {"max_num_partial_prefills", config.max_num_partial_prefills, 0, kMaxRequests},
      {"prefill_chunk_alone", config.prefill_chunk.alone, 0, kMaxTokens},
      {"prefill_chunk_contended", config.prefill_chunk.contended, 0, kMaxTokens},
      {"num_swap_blocks", config.num_swap_blocks, 0, kMaxBlocks},
      {"lpm_max_overtakes", config.lpm_max_overtakes, 0, kMaxRequests},
      {"max_displacements", config.max_displacements, 0, kMaxRequests},
  };
  for (const Range& range : ranges)
    if (range.value < range.least || range.value > range.most)
      return make_error(ErrorCode::kInvalidArgument,
                        std::string(range.name) + " must be between " + number(range.least) +
                            " and " + number(range.most) + ", not " + number(range.value) + ".");
  if (!(config.max_itl_ms >= 0 && config.max_itl_ms <= kMaxItlMs))
    return make_error(ErrorCode::kInvalidArgument,
                      "max_itl_ms must be between 0 and " + number(kMaxItlMs) + ".");
  return Ok{};
}

Status check_and_clamp(const EngineConfig& config, int vocab_size, std::size_t num_prompt_tokens,
                       SamplingParams& params) {
  QUIRE_RETURN_IF_ERROR(validate(params, vocab_size));
  if (num_prompt_tokens == 0)
    return make_error(ErrorCode::kInvalidArgument, "The prompt is empty; it needs one token.");
  const int context = config.effective_context();
  const bool by_pool = context < config.max_model_len;
  if (num_prompt_tokens >= static_cast<std::size_t>(context))
    return make_error(ErrorCode::kContextLengthExceeded,
                      "The prompt has " + std::to_string(num_prompt_tokens) +
                          " tokens, which leaves no room for an answer in the context of " +
                          number(context) + " tokens" + (by_pool ? " that the KV pool holds" : "") +
                          "; shorten the prompt.");
  int room = context - static_cast<int>(num_prompt_tokens);
  const int budget = config.max_num_batched_tokens;
  if (!config.enable_chunked_prefill) {
    if (num_prompt_tokens > static_cast<std::size_t>(budget))
      return make_error(ErrorCode::kContextLengthExceeded,
                        "The prompt has " + std::to_string(num_prompt_tokens) +
                            " tokens, but without chunked prefill a step takes at most " +
                            number(budget) + "; shorten the prompt.");
    // The newest token is never part of what a preempted request recomputes before it samples.
    room = std::min(room, budget + 1 - static_cast<int>(num_prompt_tokens));
  }
  params.max_tokens = params.max_tokens < 0 ? room : std::min(params.max_tokens, room);
  params.min_tokens = std::min(params.min_tokens, params.max_tokens);
  return Ok{};
}

Status check_token_ids(std::span<const TokenId> ids, int vocab_size) {
  const auto bad =
      std::ranges::find_if(ids, [&](TokenId id) { return id < 0 || id >= vocab_size; });
  if (bad == ids.end()) return Ok{};
  return make_error(ErrorCode::kInvalidArgument, "Token id " + number(*bad) +
                                                     " is outside this model's vocabulary of " +
                                                     number(vocab_size) + " tokens.");
}

}  // namespace quire
