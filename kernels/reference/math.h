#pragma once

#include "kernels/backend.h"

// The arithmetic of one row, in float32 and one fixed order.
namespace quire::reference {

// Eight interleaved partial sums, added in pairs at the end: the order every sum over a row uses.
float dot(const float* a, const float* b, std::int64_t count);

// out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i]; out may be x.
void rms_norm(const float* x, const float* weight, float eps, int count, float* out);

// Rotates the leading rotary_dim values of one head: angle i = position * inv_freq[i].
void rotate(float* head, int position, const float* inv_freq, const RopeParams& rope);

float activate(Activation activation, float gate);

}  // namespace quire::reference
