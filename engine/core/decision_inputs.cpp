#include "engine/core/decision_inputs.h"

#include <algorithm>
#include <array>
#include <functional>

namespace quire {
namespace {

// What one unit costs, over the recent past: a ratio of two sums forgotten at the same pace, so
// that a step counts by how much it moved or computed.
class Rate {
 public:
  explicit Rate(double first_estimate) : amount_(first_estimate), units_(first_estimate > 0) {}
  void add(double amount, double units) {
    amount_ = kKeep * amount_ + amount;
    units_ = kKeep * units_ + units;
  }
  double value() const { return units_ > 0 ? amount_ / units_ : 0; }

 private:
  static constexpr double kKeep = 0.9;
  double amount_, units_;
};

// The second largest of the last ratios.
class Margin {
 public:
  void add(double ratio) {
    ratios_[next_++ % ratios_.size()] = ratio;
    auto sorted = ratios_;
    std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater<>());
    value_ = std::clamp(sorted[1], 1.0, kMaxStepTimeMargin);
  }
  double value() const { return value_; }

 private:
  std::array<double, kMarginSteps> ratios_{};
  std::size_t next_ = 0;
  double value_ = 1;
};

class MeasuredDecisions : public DecisionSource {
 public:
  explicit MeasuredDecisions(double swap_us_per_block) : swap_(swap_us_per_block) {}

  DecisionInputs next() override {
    return {fitter_.current(),      margin_.value(), debt_ms_,
            steps_without_prefill_, swap_.value(),   recompute_.value()};
  }

  void observe(const StepObservation& step) override {
    const double compute_ms = std::max(0.0, step.step_ms - step.move_us / 1e3);
    count_prefill(step, compute_ms);
    if (fitter_.current().fitted && step.contended && step.shape.prefill_tokens > 0)
      margin_.add(compute_ms / fitter_.current().predict_ms(step.shape));
    fitter_.observe(step.shape, compute_ms);
    if (step.moved_blocks > 0 && step.move_us > 0) swap_.add(step.move_us, step.moved_blocks);
    settle_debt(step);
    const bool starved = step.contended && step.prefill_waiting && step.shape.prefill_tokens == 0;
    steps_without_prefill_ = starved ? steps_without_prefill_ + 1 : 0;
  }

 private:
  // A prompt token's share of the step: what is left when the rest took as long as predicted.
  void count_prefill(const StepObservation& step, double compute_ms) {
    const int tokens = step.shape.prefill_tokens;
    if (tokens == 0) return;
    StepShape rest = step.shape;
    rest.prefill_tokens = 0;
    rest.prefill_pairs = 0;
    const double by_rows = compute_ms * tokens / (tokens + rest.decode_tokens);
    const double share = fitter_.current().fitted
                             ? std::max(0.0, compute_ms - fitter_.current().predict_ms(rest))
                             : by_rows;
    recompute_.add(share * 1e3, tokens);
  }

  // Only streams are owed anything.
  void settle_debt(const StepObservation& step) {
    if (!step.contended || step.max_itl_ms <= 0) {
      debt_ms_ = 0;
      return;
    }
    const double excess = step.step_ms - step.max_itl_ms;
    if (excess > 0 && step.shape.prefill_tokens == 0) return;
    debt_ms_ = std::clamp(debt_ms_ + excess, 0.0, kMaxDebtTargets * step.max_itl_ms);
  }

  StepTimeFitter fitter_;
  Margin margin_;
  Rate swap_, recompute_{0};
  double debt_ms_ = 0;
  int steps_without_prefill_ = 0;
};

}  // namespace

std::unique_ptr<DecisionSource> make_measured_decisions(double swap_us_per_block) {
  return std::make_unique<MeasuredDecisions>(swap_us_per_block);
}

}  // namespace quire
