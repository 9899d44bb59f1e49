#pragma once

#include <span>

#include "engine/core/batch.h"
#include "engine/core/runner.h"

namespace quire {

// Work for a runner without a scheduler: compute the next n tokens of a request whose blocks the
// caller owns.
struct DirectEntry {
  Request* request = nullptr;
  int num_tokens = 0;                    // n >= 1
  std::span<const BlockId> block_table;  // covers num_computed_tokens + n
};

// One batch, one forward; advances num_computed_tokens and appends what was sampled. Stop rules are
// the caller's. For benches and tests.
void run_direct_step(Runner& runner, std::span<const DirectEntry> entries, int block_size);

}  // namespace quire
