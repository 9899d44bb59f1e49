#pragma once

#include <memory>
#include <mutex>
#include <unordered_set>

#include "engine/core/runner.h"

namespace quire {

// Passes work on to another runner and remembers what is in flight, so that another thread can tell
// whether an abort is worth cancelling the step for.
class WatchedRunner : public Runner {
 public:
  explicit WatchedRunner(std::unique_ptr<Runner> runner) : runner_(std::move(runner)) {}

  double move_blocks(std::span<const BlockMove> moves) override {
    return runner_->move_blocks(moves);
  }
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override;
  StepResult collect(Handle handle) override;
  int vocab_size() const override { return runner_->vocab_size(); }

  // True when a long step that holds `id` is running: cancelling it gives the blocks back at once,
  // at the price of computing the other requests' tokens again. Any thread.
  bool worth_cancelling(RequestId id) const;

 private:
  std::unique_ptr<Runner> runner_;
  mutable std::mutex mutex_;  // guards the members below
  std::unordered_set<std::int64_t> in_flight_;
  int in_flight_tokens_ = 0;
  int cancelled_in_a_row_ = 0;
};

}  // namespace quire
