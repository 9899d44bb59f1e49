#include "engine/watched_runner.h"

namespace quire {
namespace {

// A step of fewer tokens ends soon by itself.
constexpr int kLongStepTokens = 64;
// After so many cancelled steps one runs to its end: a stream of aborts must not keep the others
// from progress.
constexpr int kMaxCancelledInARow = 4;

}  // namespace

Runner::Handle WatchedRunner::launch(const Batch& batch, std::span<const SamplingRow> rows,
                                     const std::atomic<bool>& cancel) {
  {
    const std::lock_guard lock(mutex_);
    in_flight_.clear();
    for (const RequestId id : batch.request_ids) in_flight_.insert(index(id));
    in_flight_tokens_ = batch.num_tokens();
  }
  return runner_->launch(batch, rows, cancel);
}

StepResult WatchedRunner::collect(Handle handle) {
  StepResult result = runner_->collect(handle);
  const std::lock_guard lock(mutex_);
  in_flight_.clear();
  in_flight_tokens_ = 0;
  cancelled_in_a_row_ = result.cancelled ? cancelled_in_a_row_ + 1 : 0;
  return result;
}

bool WatchedRunner::worth_cancelling(RequestId id) const {
  const std::lock_guard lock(mutex_);
  return in_flight_tokens_ >= kLongStepTokens && cancelled_in_a_row_ < kMaxCancelledInARow &&
         in_flight_.contains(index(id));
}

}  // namespace quire
