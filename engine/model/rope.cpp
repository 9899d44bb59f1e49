#include "engine/model/rope.h"

#include <cmath>
#include <numbers>

namespace quire {
namespace {

double scaled(double freq, const RopeScaling& s) {
  if (s.kind == RopeScaling::Kind::kNone) return freq;
  if (s.kind == RopeScaling::Kind::kLinear) return freq / s.factor;
  const double wavelength = 2 * std::numbers::pi / freq;
  if (wavelength < s.original_context / s.high_freq_factor) return freq;
  if (wavelength > s.original_context / s.low_freq_factor) return freq / s.factor;
  const double smooth = (s.original_context / wavelength - s.low_freq_factor) /
                        (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * freq / s.factor + smooth * freq;
}

bool within(double value, double low, double high) {
  return std::isfinite(value) && value >= low && value <= high;
}

}  // namespace

std::vector<float> rope_inv_freq(int rotary_dim, double theta, const RopeScaling& scaling) {
  std::vector<float> freqs(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < freqs.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / rotary_dim;
    freqs[i] = static_cast<float>(scaled(std::pow(theta, exponent), scaling));
  }
  return freqs;
}

Status check_rope(double theta, const RopeScaling& s) {
  auto bad = [](const char* what) {
    return make_error(ErrorCode::kBadModelFile,
                      std::string("The model's rotary embedding is out of range: ") + what + ".");
  };
  if (!within(theta, 1, 1e12)) return bad("the base (rope_theta) must be between 1 and 1e12");
  if (!within(s.factor, 1e-3, 1e6)) return bad("the scaling factor must be between 0.001 and 1e6");
  if (s.kind != RopeScaling::Kind::kLlama3) return Ok{};
  if (!within(s.original_context, 1, 1e9)) return bad("the original context must be positive");
  if (!within(s.low_freq_factor, 1e-6, 1e6) || !within(s.high_freq_factor, 1e-6, 1e6) ||
      s.high_freq_factor <= s.low_freq_factor)
    return bad("low_freq_factor must be positive and below high_freq_factor");
  return Ok{};
}

Status divide_by_factors(std::vector<float>& inv_freq, std::span<const float> factors) {
  if (factors.size() != inv_freq.size())
    return make_error(ErrorCode::kBadModelFile, "rope_freqs.weight has " +
                                                    std::to_string(factors.size()) +
                                                    " factors, but the model rotates " +
                                                    std::to_string(inv_freq.size()) + " pairs.");
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (!within(factors[i], 1e-6, 1e9))
      return make_error(ErrorCode::kBadModelFile, "rope_freqs.weight holds a factor out of range.");
    inv_freq[i] /= factors[i];
  }
  return Ok{};
}

}  // namespace quire
