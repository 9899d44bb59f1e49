#pragma once

#include <vector>

#include "engine/model/model.h"
#include "engine/result.h"

namespace quire {

struct ModelBenchOptions {
  int prefill_tokens = 512;
  int decode_tokens = 128;
  int rounds = 5;  // after one that is not counted
  int depth = 0;   // tokens already in the cache before either begins
};

// `quire bench model`: one stream, greedy. Prefill is one prompt from an empty cache (after
// `depth`) to its first token; decode is the tokens after a one-token prompt, as llama-bench's pp
// and tg measure them. Medians over the rounds.
struct ModelBenchResult {
  double prefill_tok_s = 0, decode_tok_s = 0;
  std::vector<double> prefill_rounds_tok_s, decode_rounds_tok_s;
};
Result<ModelBenchResult> run_model_bench(FlatModel& model, const ModelBenchOptions& options);

}  // namespace quire
