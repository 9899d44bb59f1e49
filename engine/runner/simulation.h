#pragma once

#include <functional>
#include <optional>

#include "engine/core/engine_core.h"
#include "engine/runner/cost_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {

// A request with the moment it comes.
struct TimedRequest {
  double arrival_s = 0;
  std::unique_ptr<Request> request;  // its max_tokens is how much it answers
};
// Requests in order of arrival; nullopt at the end. Called as late as possible, so that a long
// workload is never in memory as a whole.
using RequestSource = std::function<std::optional<TimedRequest>()>;

struct SimulationOptions {
  EngineConfig config;
  MachineCosts costs;
  int vocab_size = 32000;
  CostRunner::TokenSource tokens;  // absent: a fixed function of request and place
  EventSink* sink = nullptr;       // another reader of the engine's records
  // Where decisions take their clock-derived inputs from; null: measured from the simulated steps.
  DecisionSource* decisions = nullptr;
};

struct SimulationResult {
  ServingReport report;  // in simulated time
  // In wall time:
  double wall_s = 0;
  double schedule_s = 0;  // of it, spent deciding steps
};

// Runs a workload through an EngineCore on a CostRunner until everything is answered. A request the
// queue has no place for is counted as rejected; one the engine refuses for another reason ends the
// run with that reason.
Result<SimulationResult> simulate(const SimulationOptions& options, const RequestSource& source);

}  // namespace quire
