#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/engine_core.h"
#include "engine/runner/model_runner.h"

namespace quire::test {

// Logits by (request, output index): what must not depend on how a request was scheduled.
using LogitsByToken = std::map<std::pair<RequestId, int>, std::vector<float>>;

// Passes steps on to a ModelRunner and keeps every sampled row's logits.
class RecordingRunner : public Runner {
 public:
  explicit RecordingRunner(ModelRunner& runner) : runner_(runner) { runner.keep_all_logits(); }
  double move_blocks(std::span<const BlockMove> moves) override {
    return runner_.move_blocks(moves);
  }
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override;
  StepResult collect(Handle handle) override { return runner_.collect(handle); }
  int vocab_size() const override { return runner_.vocab_size(); }

  LogitsByToken logits;

 private:
  ModelRunner& runner_;
};

struct TestPrompt {
  std::vector<TokenId> prompt;
  int max_tokens = 0;
  int priority = 0;
};

// Five prompts of different lengths; the last shares its first two blocks of 16 and seven tokens
// of the third with the fourth.
// Later ones have the higher priority, but for the last.
std::vector<TestPrompt> five_prompts(int vocab_size);

struct ScheduleRun {
  std::vector<std::vector<TokenId>> outputs;  // by request
  LogitsByToken logits;
  EngineCounters counters;
};

// Runs all prompts greedily, request i arriving before step i * `steps_between`, through an engine
// core on a poisoned pool. Free blocks that no prefix can find are poisoned again before every
// step, so that a read of stale K/V becomes NaN. Checks the core's integrity after every step and
// that every block is free at the end.
ScheduleRun run_scheduled(FlatModel& model, const EngineConfig& config,
                          const std::vector<TestPrompt>& prompts, int steps_between = 0);

// Each prompt alone on a fresh pool, its prompt in one piece.
ScheduleRun run_alone(FlatModel& model, const std::vector<TestPrompt>& prompts);

struct NamedConfig {
  std::string name;
  EngineConfig config;
  bool preempts;
};

// Small chunks and a tight budget; a pool of 12 blocks; prefix caching off with two sequences.
std::vector<NamedConfig> schedule_configs();

// {budget 24, 2048} x {64, 12 blocks} x {2, 64 sequences} x {recompute, swap} x {no, hash, radix
// prefix index} x {fcfs, priority, lpm} x {prefill chunk 16, 512, whole}. `preempts` is not set.
std::vector<NamedConfig> schedule_matrix();

// "" when outputs are equal and logits are equal bit for bit; else the first difference.
std::string first_difference(const ScheduleRun& expected, const ScheduleRun& actual);

}  // namespace quire::test
