#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/result.h"

namespace quire {

// How inverse frequencies are stretched past the trained context.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3 } kind = Kind::kNone;
  double factor = 1;  // kLinear and kLlama3: > 0
  // kLlama3 (as in Hugging Face's modeling_rope_utils): wavelengths shorter than original / high
  // stay, longer than original / low are divided by `factor`, those between are blended.
  double low_freq_factor = 1, high_freq_factor = 4;
  double original_context = 8192;
};

// inv_freq[i] = theta^(-2i / rotary_dim), scaled; [rotary_dim / 2]. rotary_dim is even and
// positive.
std::vector<float> rope_inv_freq(int rotary_dim, double theta, const RopeScaling& scaling);

// Names the first number that is not finite or out of range. Files are hostile.
Status check_rope(double theta, const RopeScaling& scaling);

// GGUF's form of llama3 scaling: divides each frequency by its stored factor.
Status divide_by_factors(std::vector<float>& inv_freq, std::span<const float> factors);

}  // namespace quire
