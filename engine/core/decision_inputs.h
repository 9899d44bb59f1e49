#pragma once

#include <memory>

#include "engine/core/step_time_model.h"

namespace quire {

struct BlockMoveTimes;

// So that one very long step does not keep prompts out for long.
inline constexpr double kMaxDebtTargets = 4;

// So that a machine that stalls once does not lose its chunks for long.
inline constexpr double kMaxStepTimeMargin = 1.5;
inline constexpr int kMarginSteps = 32;

// Everything a scheduling decision takes from a clock. Recorded with the step that used it, so that
// a replay decides alike without one.
struct DecisionInputs {
  StepTimeModel step_time;
  // Of the last kMarginSteps steps with prefill beside streams, about 19 in 20 took at most so many
  // times what the model then in force predicted; in [1, kMaxStepTimeMargin].
  double step_time_margin = 1;
  // Milliseconds by which steps with prefill exceeded `max_itl_ms` while streams were waiting, not
  // yet paid back by steps that stayed below it; never above kMaxDebtTargets times that target, and
  // void when no stream is left. See chunk_control.h.
  double decode_debt_ms = 0;
  // Steps in a row in which a stream was decoding and a prompt waiting got no token.
  int steps_without_prefill = 0;
  double swap_us_per_block = 0;       // one way; 0 = not measured yet
  double recompute_us_per_token = 0;  // 0 = not measured yet
  bool operator==(const DecisionInputs&) const = default;
};

// What a finished step tells about this machine's speed.
struct StepObservation {
  StepShape shape;
  double step_ms = 0;            // whole step
  bool contended = false;        // a stream was decoding when the step was planned
  bool prefill_waiting = false;  // a running or admissible prompt had tokens to compute
  double max_itl_ms = 0;
  int moved_blocks = 0;  // swapped either way
  double move_us = 0;
};

// Where a step's clock-derived inputs come from: measured while running, or read from a recording.
class DecisionSource {
 public:
  virtual ~DecisionSource() = default;
  virtual DecisionInputs next() = 0;  // asked once, when a step begins
  virtual void observe(const StepObservation& step) = 0;
};

// Measures. `swap_us_per_block`: a first estimate, 0 if there is none; without one `auto` never
// begins to swap, and so never measures. Block moves are no part of the step time model.
std::unique_ptr<DecisionSource> make_measured_decisions(double swap_us_per_block = 0);

}  // namespace quire
