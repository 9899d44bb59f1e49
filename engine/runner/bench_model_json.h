#pragma once

#include <string>

#include "engine/runner/bench_model.h"

namespace quire {

struct ModelBenchRun {
  std::string model, description, backend;
  std::int64_t kv_bytes_per_token = 0;  // all layers, keys and values
  ModelBenchOptions options;
  std::vector<ModelBenchSeries> series;
};

// One object on one line: model, description, backend, kv_bytes_per_token, rounds, decode_tokens,
// shared_prefix_tokens, us_per_context_token (see seconds_per_context_token(); null when empty),
// and a list for each kind (prefill, decode, parallel, shared_prefix). Entries have
//   prompt | depth | streams | requests   the size; parallel has depth too
//   tokens, steps, prompt_tokens, cached_tokens   of a round, see ModelBenchSeries
//   tok_s, tok_s_min, tok_s_max, step_ms, wall_s   tok_s, step_ms and wall_s are medians
//   rounds_s, rounds_cpu_s   every round
std::string model_bench_json(const ModelBenchRun& run);

// The newest round, on one line: kind, size, round (from 1), tokens, seconds, cpu_seconds.
std::string model_bench_round_json(const ModelBenchSeries& series);

const char* kind_name(ModelBenchKind kind);  // "prefill", "decode", "parallel", "shared_prefix"
const char* size_name(ModelBenchKind kind);  // "prompt", "depth", "streams", "requests"

}  // namespace quire
