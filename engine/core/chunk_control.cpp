#include "engine/core/chunk_control.h"

#include <algorithm>
#include <limits>

namespace quire {
namespace {

constexpr int kNoLimit = std::numeric_limits<int>::max();

StepShape with_prefill(const ChunkState& state, int chunk) {
  StepShape shape = state.decodes;
  shape.prefill_tokens = chunk;
  shape.prefill_pairs = static_cast<std::int64_t>(chunk) * state.prefill_computed +
                        static_cast<std::int64_t>(chunk) * (chunk + 1) / 2;
  return shape;
}

// Largest chunk on the grid, or `most` itself, whose predicted step takes at most `milliseconds`;
// 0 if none does. The time grows with the chunk.
int largest_chunk(const StepTimeModel& model, const ChunkState& state, double milliseconds,
                  int most) {
  const auto chunk = [&](int units) { return std::min(units * kChunkGrid, most); };
  int low = 0, high = (most + kChunkGrid - 1) / kChunkGrid;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    const bool fits = model.predict_ms(with_prefill(state, chunk(middle))) <= milliseconds;
    (fits ? low : high) = fits ? middle : middle - 1;
  }
  return chunk(low);
}

}  // namespace

int prefill_limit(const EngineConfig& config, const DecisionInputs& inputs,
                  const ChunkState& state) {
  const int chunk = config.prefill_chunk.chunk(state.others_decoding);
  const bool timed = config.max_itl_ms > 0 && state.others_decoding && inputs.step_time.fitted;
  if (!timed) return chunk == 0 ? kNoLimit : chunk;
  const int most = config.prefill_chunk.alone == 0
                       ? config.max_num_batched_tokens
                       : std::min(config.prefill_chunk.alone, config.max_num_batched_tokens);
  const bool overdue = inputs.steps_without_prefill >= kMaxStepsWithoutPrefill;
  int fits = 0;
  if (inputs.decode_debt_ms <= config.max_itl_ms) {
    const double target = config.max_itl_ms - inputs.decode_debt_ms / 2;
    fits = largest_chunk(inputs.step_time, state, target / inputs.step_time_margin, most);
  }
  return fits == 0 && overdue ? std::min(kChunkGrid, most) : fits;
}

}  // namespace quire
