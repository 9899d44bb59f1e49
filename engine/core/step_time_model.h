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

// Fits a StepTimeModel to steps as they run: least squares of relative errors over exponentially
// forgotten history, coefficients kept from going negative, terms no step had left at zero. Steps
// with prefill and steps without are forgotten each at their own pace, so that an hour of decoding
// does not wash out what a prompt costs. A step far slower than predicted counts less.
// Deterministic. Not fitted before `kLeastSteps` steps, some with prefill tokens and some with
// decode tokens.
class StepTimeFitter {
 public:
  static constexpr int kLeastSteps = 8;
  // `half_life` in steps: after so many of its kind a step weighs half.
  explicit StepTimeFitter(double half_life = 256);
  // Ignores a time that is not positive and finite.
  void observe(const StepShape& shape, double milliseconds);
  // The fit to everything observed.
  StepTimeModel fit() const;
  // The last fit, at most `kRefitSteps` steps old; costs nothing.
  const StepTimeModel& current() const { return current_; }

 private:
  static constexpr int kTerms = StepTimeModel::kTerms;
  static constexpr int kRefitSteps = 8;
  using Vector = std::array<double, kTerms>;
  using Matrix = std::array<Vector, kTerms>;
  struct History {
    Matrix normal{};  // weighted X^T X
    Vector moment{};  // weighted X^T y
    void add(const Vector& x, double y, double weight, double forget);
  };

  double forget_;
  int num_steps_ = 0;
  bool seen_prefill_ = false, seen_decode_ = false;
  History with_prefill_, without_;
  StepTimeModel current_;
};

}  // namespace quire
