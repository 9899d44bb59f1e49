#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/core/batch.h"
#include "engine/core/block_move.h"

namespace quire {

// One row of Batch::logits_indices to sample.
struct SamplingRow {
  RequestId request = kNoRequest;
  const SamplingParams* params = nullptr;  // seed is set
  int output_index = 0;                    // which output token of the request this draw makes
  std::span<const TokenId> token_ids;      // prompt then output so far, for penalties
  int num_prompt_tokens = 0;
  std::span<const TokenId>
      banned;  // ids that may not be chosen yet (EOS and stop ids before min_tokens)
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct SampledRow {
  TokenId token = 0;
  float logprob = 0;              // of `token`, filled when the request asked for logprobs
  std::vector<TokenLogprob> top;  // best first, params->logprobs of them
};

struct StepResult {
  bool cancelled = false;        // the forward stopped early; nothing below is valid
  std::vector<SampledRow> rows;  // one per SamplingRow, in order
  double prepare_us = 0, forward_us = 0, sample_us = 0;
  double move_us = 0;  // set by the engine core, from move_blocks; part of prepare_us
};

// Thrown by a runner when the device fails; the engine loop catches it once.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs batches. `launch` may return before the work is done; EngineCore keeps one step in flight.
// The batch, the rows and what they point to stay alive until `collect` returns. Engine thread
// only, except that `cancel` may be set from any thread and is polled between layers.
class Runner {
 public:
  using Handle = std::uint64_t;
  virtual ~Runner() = default;
  // Moves block contents, in order, before the next launch. Returns the microseconds it took.
  // Host blocks are those of the host pool the runner was made with. Called also when nothing is
  // launched after it, and not undone when the step is cancelled.
  virtual double move_blocks(std::span<const BlockMove> moves) = 0;
  virtual Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                        const std::atomic<bool>& cancel) = 0;
  virtual StepResult collect(Handle handle) = 0;
  virtual int vocab_size() const = 0;
};

}  // namespace quire
