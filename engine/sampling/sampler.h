#pragma once

#include <span>

#include "engine/core/runner.h"
#include "kernels/backend.h"

namespace quire {

// Chooses one token from a row of logits, [vocab].
//
// In order: banned ids are excluded; repetition penalty over prompt and output (a positive logit is
// divided by it, a negative one multiplied, as in Hugging Face transformers); presence and
// frequency penalties over output (as in the OpenAI API); temperature; top-k; top-p over what top-k
// left; min-p. Temperature 0 takes the largest penalised logit. Equal logits rank by id, lowest
// first, everywhere. The draw is philox_uniform(seed, output_index, 0), so the answer is a pure
// function of the logits and the row.
//
// NaN counts as -infinity, +infinity as the largest float. Throws DeviceError when no logit is
// above -infinity: the model or the device is broken. When every usable id is banned the ban is
// dropped, so that a request's own parameters can never do that.
//
// Logprobs are the log-softmax of the logits as they came, at temperature 1.
SampledRow sample_row(std::span<const float> logits, const SamplingRow& row);

// Whether the row takes the largest logit whatever the others are; then sample_largest() on it is
// what sample_row() makes of all.
bool takes_largest(const SamplingRow& row);
SampledRow sample_largest(const LargestLogit& largest);

}  // namespace quire
