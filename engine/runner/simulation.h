#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Settings that came into force while serving.
struct TimedConfig {
  double time_s = 0;
  EngineConfig config;
};

struct SimulationOptions {
  EngineConfig config;
  std::vector<TimedConfig> changes;  // in order of time; one the engine refuses is passed over
  MachineCosts costs;
  int vocab_size = 32000;
  CostRunner::TokenSource tokens;  // absent: a fixed function of request and place
  // Called once, before the first request: the place to add a reader of the engine's records.
  std::function<Status(EngineCore& core)> on_begin;
  // Where decisions take their clock-derived inputs from; null: measured from the simulated steps,
  // with what a block move costs known from the start.
  DecisionSource* decisions = nullptr;
};

struct SimulationResult {
  ServingReport report;  // in simulated time
  // In wall time:
  double wall_s = 0;
  double schedule_s = 0;  // of it, spent deciding steps
  int overtaken_max = 0;  // most admissions of later arrivals that passed one request
  std::string refused;    // why the first request that was not admitted was not; empty: none
};

// Runs a workload through an EngineCore on a CostRunner until everything is answered. Requests the
// engine refuses are counted as rejected. Fails only as `on_begin` does, or for settings out of
// range.
Result<SimulationResult> simulate(const SimulationOptions& options, const RequestSource& source);

}  // namespace quire
