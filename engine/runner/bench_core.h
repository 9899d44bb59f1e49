#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/ids.h"
#include "engine/model/model.h"
#include "engine/result.h"

namespace quire {

// One line of `quire bench core`.
struct CoreBenchLine {
  std::string engine;
  int kv_slots = 0;  // tokens of KV memory reserved
  int output_tokens = 0;
  double tok_s = 0;  // output tokens per second of wall time
  int steps = 0;
  double prefix_hit_rate = 0;  // per successful admission, resumes included
  int preemptions = 0;
  std::string outputs_hash;  // 64-bit FNV-1a over every output id in request order, hexadecimal
};

struct BenchRequest {
  std::vector<TokenId> prompt;
  int max_tokens = 0;
};

// Requests that share a 192-token system prompt, each with its own 8-48-token question and 8-40
// output tokens; the same for a given count and vocabulary on every machine.
std::vector<BenchRequest> core_bench_workload(int num_requests, int vocab_size);

// Runs the workload greedily through (a) the slot engine: 8 rows of 320 tokens, prompts in chunks
// of 128; (b) the engine core with a pool of 4096 blocks; (c) the core with 24 blocks. Equal
// outputs_hash in all three says that scheduling changed no answer.
Result<std::vector<CoreBenchLine>> run_core_bench(FlatModel& model, int num_requests);

}  // namespace quire
