#pragma once

#include <vector>

#include "engine/core/engine_config.h"

namespace quire {

struct PrefixIndexBenchOptions {
  int requests = 4000;
  // A tree: systems, under each of them examples, under each of these documents, and a question of
  // its own behind every document. No length is a multiple of the block size.
  int systems = 4, examples = 6, documents = 12;
  double pool_part = 0.5;  // of the blocks the whole tree takes
};

struct PrefixIndexBenchLine {
  PrefixIndexKind index = PrefixIndexKind::kHash;
  int num_blocks = 0;
  std::int64_t prompt_tokens = 0, hit_tokens = 0, copied_tokens = 0;
  std::int64_t partial_copies = 0, evictions = 0;
  double hit_rate = 0;
  double lookup_p50_us = 0, lookup_p99_us = 0;  // of a request whose blocks are hashed already
  double first_lookup_p50_us = 0;               // and of one whose blocks are not
};

// `quire bench prefix-index`: the same tree-shaped prompts, one after another, through both
// indexes. No model.
Result<std::vector<PrefixIndexBenchLine>> run_prefix_index_bench(
    const PrefixIndexBenchOptions& options);

}  // namespace quire
