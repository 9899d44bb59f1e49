#pragma once

#include <string>

#include "engine/runner/bench_model_json.h"

namespace quire {

// What `quire bench model` prints for people: a line for each size, what a token of context costs,
// and a step's time over the contexts and over the streams as bars, where there are two or more.
// Times and rates are medians.
std::string model_bench_text(const ModelBenchRun& run);

}  // namespace quire
