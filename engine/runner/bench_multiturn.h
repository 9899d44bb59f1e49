#pragma once

#include <vector>

#include "engine/core/engine_config.h"
#include "engine/model/model.h"

namespace quire {

struct MultiturnBenchOptions {
  int users = 8, turns = 5;
  int system_tokens = 128;  // before every conversation
  int user_tokens = 48, answer_tokens = 24;
  int max_num_seqs = 4;
  PrefixIndexKind index = PrefixIndexKind::kHash;
};

struct MultiturnBenchLine {
  double pool_part = 0;  // of the blocks all conversations take at their end
  int num_blocks = 0;
  double hit_rate = 0;  // of the prompt tokens looked up
  double ttft_p50_ms = 0, ttft_p99_ms = 0;
  std::int64_t computed_prompt_tokens = 0, evictions = 0;
  double total_s = 0;
};

// `quire bench multiturn`: users who each go on with their own conversation, turn by turn and all
// at once, over pools of different sizes. One line per size, small to large.
Result<std::vector<MultiturnBenchLine>> run_multiturn_bench(FlatModel& model,
                                                            const MultiturnBenchOptions& options);

}  // namespace quire
