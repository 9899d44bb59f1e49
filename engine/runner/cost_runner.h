#pragma once

#include <functional>

#include "engine/core/engine_core.h"
#include "engine/core/runner.h"
#include "engine/core/step_time_model.h"

namespace quire {

// What a machine takes for a step and for bringing blocks elsewhere.
struct MachineCosts {
  StepTimeModel step_time;
  double move_us_per_block = 0;
};

// A model of a hundred million parameters on two processor cores, in round numbers: for
// comparing settings where no machine was calibrated.
MachineCosts default_costs();

// The shape of a batch, as the scheduler sees it: a row counts as decode when it is sampled behind
// output, and as prefill otherwise.
StepShape shape_of(const Batch& batch, std::span<const SamplingRow> rows);

// A runner without weights: every step takes as long as the costs say, on a clock of its own, and
// answers with the tokens it is told to. With its clock as the engine core's, the same scheduler
// code runs as on the machine the costs were measured on, as fast as it can. Reads no keys and
// values, so it proves nothing about them. Engine thread only.
class CostRunner : public Runner {
 public:
  // The token a request has at that place of its output; must be in [0, vocab_size). For drafts it
  // is asked for each place behind them.
  using TokenSource = std::function<TokenId(RequestId request, int output_index)>;

  CostRunner(const MachineCosts& costs, int vocab_size, TokenSource tokens);

  double now_s() const { return now_s_; }
  // Idle time; never goes back.
  void advance_to(double seconds);
  // Reads this runner's clock, which must outlive it.
  Clock clock() const;

  double move_blocks(std::span<const BlockMove> moves) override;
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override;
  StepResult collect(Handle handle) override;
  int vocab_size() const override { return vocab_size_; }

 private:
  MachineCosts costs_;
  int vocab_size_;
  TokenSource tokens_;
  double now_s_ = 0;
  Handle handle_ = 0;
  StepResult result_;
};

}  // namespace quire
