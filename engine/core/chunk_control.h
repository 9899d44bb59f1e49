#pragma once

#include "engine/core/decision_inputs.h"
#include "engine/core/engine_config.h"

namespace quire {

// What the choice of a step's prefill tokens looks at.
struct ChunkState {
  bool others_decoding = false;
  StepShape decodes;         // the step as it would be without any prefill
  int prefill_computed = 0;  // tokens before the next prompt token, of the first prompt in line
};

// Prefill tokens a step may take, before its token budget: the chunk policy's value; with a time
// target and a fitted model instead the largest chunk, on a grid of `kChunkGrid`, whose predicted
// step, with the margin steps have been seen to need, stays within the target less what decode debt
// is paid in this step. While debt stands above one target no prefill runs, but never for more than
// `kMaxStepsWithoutPrefill` steps: after those the smallest chunk does. So a stream waits at most
// the target in 19 steps of 20 and on average, and a prompt of p tokens is through after at most
// p / kChunkGrid * (kMaxStepsWithoutPrefill + 1) steps. 0 = none in this step; a very large value =
// no limit. Pure.
inline constexpr int kChunkGrid = 16;
inline constexpr int kMaxStepsWithoutPrefill = 8;
int prefill_limit(const EngineConfig& config, const DecisionInputs& inputs,
                  const ChunkState& state);

}  // namespace quire
