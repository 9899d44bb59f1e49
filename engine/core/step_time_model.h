#pragma once

#include <array>
#include <cstdint>

namespace quire {

// What decides how long a step takes.
struct StepShape {
  int prefill_tokens = 0;           // rows of prompts and recomputes
  int decode_tokens = 0;            // rows of decodes and drafts
  int num_samples = 0;              // rows that reach the LM head
  std::int64_t prefill_pairs = 0;   // keys read by prefill rows, summed over the rows
  std::int64_t decode_context = 0;  // keys read by decode rows, summed over the rows
  bool operator==(const StepShape&) const = default;
};

// A step's time in milliseconds as a non-negative linear function of its shape:
// base + prefill_token * prefill_tokens + decode_token * decode_tokens + sample * num_samples
//      + prefill_pair * prefill_pairs + decode_key * decode_context.
struct StepTimeModel {
  static constexpr int kTerms = 6;
  std::array<double, kTerms> ms{};  // in the order above
  bool fitted = false;

  double predict_ms(const StepShape& shape) const;
  bool operator==(const StepTimeModel&) const = default;
};

// Fits a StepTimeModel to steps as they run: least squares over exponentially forgotten history,
// coefficients kept from going negative. Deterministic. Not fitted before `kLeastSteps` steps.
class StepTimeFitter {
 public:
  static constexpr int kLeastSteps = 8;
  // `half_life` in steps: after so many a step weighs half.
  explicit StepTimeFitter(double half_life = 256);
  void observe(const StepShape& shape, double milliseconds);
  StepTimeModel fit() const;

 private:
  static constexpr int kTerms = StepTimeModel::kTerms;
  double forget_;
  int num_steps_ = 0;
  std::array<std::array<double, kTerms>, kTerms> normal_{};  // weighted X^T X
  std::array<double, kTerms> moment_{};                      // weighted X^T y
};

}  // namespace quire
