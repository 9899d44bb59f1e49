#pragma once

#include <string>
#include <vector>

#include "engine/runner/simulation.h"
#include "engine/trace/reader.h"

namespace quire {

struct WhatIfResult {
  ServingReport recorded;
  ServingReport unchanged;  // simulated under the recording's own settings: how good the model is
  ServingReport changed;    // simulated under the settings asked about
  EngineConfig config;      // those
  MachineCosts costs;       // fitted to the recording's steps
  double error_mean = 0, error_p95 = 0;  // of the fit, relative, over those steps
  std::int64_t steps = 0;                // fitted to
  int left_out = 0;                      // recorded requests that never got a token
  int reconfigurations = 0;              // in the recording, and so in both simulations
  std::string refused;  // why the changed engine refused its first request; empty: it took all
};

// What a recorded day would have been like under other settings: the recording's requests, at their
// times and with their answers, and whatever settings were changed meanwhile, through the same
// scheduler on costs fitted to its steps. A request that was aborted answers as far as it had got.
// `settings` as name=value. kInvalidArgument for a setting that cannot be, kNotFound when the
// recording has too few steps to fit.
Result<WhatIfResult> what_if(const TraceReader& reader, const std::vector<std::string>& settings);

// Applies name=value settings and validates the outcome.
Status apply_settings(EngineConfig& config, const std::vector<std::string>& settings);

}  // namespace quire
