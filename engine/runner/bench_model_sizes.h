#pragma once

#include "engine/runner/bench_model.h"

// Of bench_model.cpp: what its sizes ask of an engine, and which it refuses.
namespace quire {

inline constexpr int kBenchBlockSize = 16, kBenchWarmUpPrompt = 64, kBenchWarmUpOutput = 4;

// Tokens a stream may make beyond the timed ones: the first, and those of the steps in which others
// compute the end of their contexts, which no block holds.
int bench_lead_tokens(int streams);

// What a bench needs at most.
struct ModelBenchNeeds {
  int context = 0;  // tokens of one request
  int blocks = 0;
  int streams = 1;
};
ModelBenchNeeds model_bench_needs(const ModelBenchOptions& options);

Status check_model_bench(const ModelBenchOptions& options, int context_length);

}  // namespace quire
