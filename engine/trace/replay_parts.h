#pragma once

#include <memory>
#include <vector>

#include "engine/core/engine_core.h"

// What stands in for the world in a replay. Each gives what `recorded`, the step being replayed,
// says; null between steps.
namespace quire {

using RecordedStep = const StepRecord*;

// Samples the recorded tokens, and ends a forward as the recorded one ended. For a row the
// recording has no token for, any.
class ReplayRunner : public Runner {
 public:
  ReplayRunner(const RecordedStep& recorded, int vocab_size)
      : recorded_(recorded), vocab_size_(vocab_size) {}
  double move_blocks(std::span<const BlockMove>) override { return 0; }
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override;
  StepResult collect(Handle handle) override;
  int vocab_size() const override { return vocab_size_; }

 private:
  std::size_t sample(std::span<const SamplingRow> rows, std::span<SampledRow> made,
                     std::size_t sampled) const;

  const RecordedStep& recorded_;
  int vocab_size_;
  StepResult result_;
};

class ReplayDecisions : public DecisionSource {
 public:
  explicit ReplayDecisions(const RecordedStep& recorded) : recorded_(recorded) {}
  DecisionInputs next() override { return recorded_ ? recorded_->inputs : DecisionInputs{}; }
  void observe(const StepObservation&) override {}

 private:
  const RecordedStep& recorded_;
};

class ReplayDrafter : public Drafter {
 public:
  explicit ReplayDrafter(const RecordedStep& recorded) : recorded_(recorded) {}
  std::vector<TokenId> propose(const Request& request) override;

 private:
  const RecordedStep& recorded_;
};

// Ends a request where a stop string ended it: the recording says so by a stop that no token
// explains. Makes no text.
class ReplayText : public OutputProcessor {
 public:
  explicit ReplayText(const RecordedStep& recorded) : recorded_(recorded) {}
  void begin(const Request&) override {}
  Outcome on_token(RequestId request, TokenId token, bool stops_allowed) override;
  std::string finish(RequestId, FinishReason) override { return {}; }

 private:
  const RecordedStep& recorded_;
  std::uint64_t step_ = 0;
  RequestId request_ = kNoRequest;
  std::ptrdiff_t seen_ = 0;  // tokens of `request_` in `step_`
};

// Keeps the records the replayed engine makes until they are compared.
class ReplaySink : public EventSink {
 public:
  void on_step(const std::shared_ptr<const StepRecord>& record) override { made = record; }
  std::shared_ptr<const StepRecord> made;
};

}  // namespace quire
