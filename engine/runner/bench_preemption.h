#pragma once

#include <vector>

#include "engine/core/engine_config.h"
#include "engine/model/model.h"

namespace quire {

struct PreemptionBenchOptions {
  int requests = 12;
  int prompt_tokens = 256, output_tokens = 96;
  // Of the blocks that all running requests would take at their longest.
  double pool_part = 0.5;
  int max_num_seqs = 8;
  int longest_context = 4096;  // of the sweep
};

struct PreemptionBenchLine {
  PreemptionMode mode = PreemptionMode::kRecompute;
  bool caching = false;
  double total_s = 0;
  double tpot_p50_ms = 0, tpot_p99_ms = 0;  // time per output token, over the requests
  std::int64_t preemptions = 0, swap_preemptions = 0, recomputed_tokens = 0;
  std::int64_t blocks_swapped = 0, bytes_swapped = 0;  // both ways
  bool same_outputs = true;                            // as of the first line
};

// One context length: what it takes to give a request's blocks up and to have it back.
struct SwapCrossover {
  int context_tokens = 0;
  double recompute_ms = 0, swap_ms = 0;  // out and in
};

struct PreemptionBench {
  std::vector<PreemptionBenchLine> lines;
  std::vector<SwapCrossover> sweep;  // contexts ascending
  double swap_us_per_block = 0;
  std::int64_t bytes_per_block = 0;
};

// `quire bench preemption`: more requests than the pool has room for, under each preemption mode,
// with prefix caching and without; and the cost of both ways over the context's length.
Result<PreemptionBench> run_preemption_bench(FlatModel& model,
                                             const PreemptionBenchOptions& options);

}  // namespace quire
