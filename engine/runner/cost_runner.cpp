#include "engine/runner/cost_runner.h"

#include <algorithm>

#include "kernels/check.h"

namespace quire {

MachineCosts default_costs() {
  return {{{4.0, 0.9, 2.0, 0.8, 2e-4, 1e-4}, true}, 20};
}

StepShape shape_of(const Batch& batch, std::span<const SamplingRow> rows) {
  StepShape shape;
  std::size_t row = 0;
  for (int r = 0; r < batch.num_reqs(); ++r) {
    if (batch.request_ids[r] == kNoRequest) continue;
    const int samples = batch.sample_counts[r];
    const std::int64_t n = batch.query_start_loc[r + 1] - batch.query_start_loc[r];
    const std::int64_t keys = n * (batch.seq_lens[r] - n) + n * (n + 1) / 2;
    const bool decodes = samples == n && rows[row].output_index > 0;
    row += static_cast<std::size_t>(samples);
    shape.num_samples += samples;
    (decodes ? shape.decode_tokens : shape.prefill_tokens) += static_cast<int>(n);
    (decodes ? shape.decode_context : shape.prefill_pairs) += keys;
  }
  return shape;
}

CostRunner::CostRunner(const MachineCosts& costs, int vocab_size, TokenSource tokens)
    : costs_(costs), vocab_size_(vocab_size), tokens_(std::move(tokens)) {}

void CostRunner::advance_to(double seconds) {
  now_s_ = std::max(now_s_, seconds);
}

Clock CostRunner::clock() const {
  return [this] { return now_s_; };
}

double CostRunner::move_blocks(std::span<const BlockMove> moves) {
  const double microseconds = costs_.move_us_per_block * static_cast<double>(moves.size());
  now_s_ += microseconds * 1e-6;
  return microseconds;
}

Runner::Handle CostRunner::launch(const Batch& batch, std::span<const SamplingRow> rows,
                                  const std::atomic<bool>& cancel) {
  QUIRE_CHECK(rows.size() == batch.logits_indices.size(), rows.size(), batch.logits_indices.size());
  result_ = {};
  result_.cancelled = cancel.load();
  if (result_.cancelled) return ++handle_;
  const double milliseconds = costs_.step_time.predict_ms(shape_of(batch, rows));
  now_s_ += milliseconds * 1e-3;
  result_.forward_us = milliseconds * 1e3;
  result_.rows.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    result_.rows[i].token = tokens_(rows[i].request, rows[i].output_index);
  return ++handle_;
}

StepResult CostRunner::collect(Handle handle) {
  QUIRE_CHECK(handle == handle_, handle, handle_);
  return std::move(result_);
}

}  // namespace quire
