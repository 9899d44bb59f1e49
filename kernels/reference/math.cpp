#include "kernels/reference/math.h"

#include <cmath>

namespace quire::reference {

float dot(const float* a, const float* b, std::int64_t count) {
  constexpr int kLanes = 8;
  float sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void rms_norm(const float* x, const float* weight, float eps, int count, float* out) {
  const float mean = dot(x, x, count) / static_cast<float>(count);
  const float scale = 1.0f / std::sqrt(mean + eps);
  for (int i = 0; i < count; ++i) out[i] = x[i] * scale * weight[i];
}

void rotate(float* head, int position, const float* inv_freq, const RopeParams& rope) {
  const int half = rope.rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * inv_freq[i];
    const float cosine = std::cos(angle) * rope.scale, sine = std::sin(angle) * rope.scale;
    float& first = head[rope.interleaved ? 2 * i : i];
    float& second = head[rope.interleaved ? 2 * i + 1 : i + half];
    const float a = first, b = second;
    first = a * cosine - b * sine;
    second = b * cosine + a * sine;
  }
}

float activate(Activation activation, float gate) {
  if (activation == Activation::kSiluMul) return gate / (1.0f + std::exp(-gate));
  constexpr float kSqrt2OverPi = 0.7978845608028654f;
  const float inner = kSqrt2OverPi * (gate + 0.044715f * gate * gate * gate);
  return 0.5f * gate * (1.0f + std::tanh(inner));
}

}  // namespace quire::reference
