#pragma once

#include "engine/model/model.h"
#include "engine/runner/cost_runner.h"

namespace quire {

struct CalibrateOptions {
  // Longest context measured, in tokens; streams of an eighth of it up to the whole are decoded.
  int context = 1024;
  int repeats = 3;  // of every decode and mixed step
};

struct Calibration {
  MachineCosts costs;  // moves are 0: not measured
  int steps = 0;
  // Relative error of the fit on the steps it was fitted to.
  double error_mean = 0, error_p95 = 0;
};

// `quire bench calibrate`: prompts in pieces of different lengths at different depths, decodes of
// one to eight streams, and both together, on the model itself; then one fit to all of it.
Result<Calibration> calibrate(FlatModel& model, const CalibrateOptions& options);

}  // namespace quire
