#pragma once

#include <unordered_map>

#include "engine/core/batch.h"
#include "engine/core/block_manager.h"
#include "engine/core/engine_core.h"
#include "engine/core/scheduler.h"
#include "engine/core/stop_rules.h"
#include "engine/core/swap_pool.h"

namespace quire {

// EngineCore's state. engine_core.cpp has what happens between steps, engine_step.cpp the step.
struct EngineCore::Impl {
  Impl(EngineConfig engine_config, Runner& step_runner, Clock step_clock,
       OutputProcessor* output_processor);

  // A step's batch and everything its rows point to.
  struct Prepared {
    Batch batch;
    std::vector<std::vector<TokenId>> banned;
    std::vector<std::vector<TokenId>> drafted;  // tokens with drafts behind, where there are any
    std::vector<SamplingRow> rows;
  };

  std::vector<RequestOutput> step();
  Prepared prepare(const Schedule& schedule) const;
  // Microseconds it took. What the runner throws ends every live request, as in `run`.
  double move_blocks(const Schedule& schedule);
  // False when the step was cancelled and rolled back.
  bool run(const Prepared& prepared, const Schedule& schedule, StepResult& result);
  void update(const Schedule& schedule, const Prepared& prepared, StepResult& result,
              std::vector<RequestOutput>& outputs);
  void add_rows(const Request& request, int num_samples, Prepared& prepared) const;
  void count_admissions(const Schedule& schedule);
  // Accepts the drafts that equal what was sampled, and appends what was sampled behind them.
  void verify(Request& request, std::span<SampledRow> rows, RequestOutput& output);
  // Appends the sampled token, applies the stop rules and finishes the request if one holds.
  void deliver(Request& request, SampledRow row, RequestOutput& output);
  void propose_drafts(const Schedule& schedule);
  void observe(const Schedule& schedule, double step_ms);
  StopDecision check_stop(const Request& request, std::string& text);
  void finish_empty_requests(std::vector<RequestOutput>& outputs);
  void fail_live_requests(const Schedule& schedule);
  void note_plan(const Schedule& schedule);

  Status add(std::unique_ptr<Request> request);
  bool abort(RequestId id);
  void reset_prefix_cache();
  Status reconfigure(const EngineConfig& wanted);
  // The one way a request ends. Returns the text its processor held back.
  std::string finish(Request& request, FinishReason reason, std::string stop_reason);
  // Drops the requests that ended before this call.
  void reap();
  void note_waits();
  // Completes `record`, hands it to the sinks and starts the next one.
  void emit();
  void check_integrity() const;

  EngineConfig config;
  Runner& runner;
  Clock clock;
  OutputProcessor* processor;  // may be null
  Drafter* drafter = nullptr;
  std::unique_ptr<DecisionSource> measured = make_measured_decisions();
  DecisionSource* decisions = measured.get();
  FinishHook on_finish;
  BlockManager blocks;
  SwapPool swap;
  Scheduler scheduler;
  std::unordered_map<RequestId, std::unique_ptr<Request>> requests;
  std::vector<RequestId> finished;     // still findable, dropped when the next step begins
  std::vector<RequestId> zero_tokens;  // arrived with max_tokens 0 since the last step
  std::vector<EventSink*> sinks;
  StepRecord record;  // being filled for the next emit
  std::unordered_map<RequestId, WaitState> last_waits;
  std::uint64_t num_records = 0;
  EngineCounters counters;
  std::atomic<bool> cancel{false};
};

}  // namespace quire
