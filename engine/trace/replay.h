#pragma once

#include <cstdint>
#include <string>

#include "engine/trace/reader.h"

namespace quire {

struct ReplayOutcome {
  std::uint64_t steps_compared = 0;  // that were equal
  std::uint64_t differing_step = 0;  // the first one; 0 when all were equal
  std::string difference;            // one sentence; empty when all were equal
  bool equal() const { return difference.empty(); }
};

// Runs the scheduler again on what a recording says came in (arrivals, aborts, changes of settings,
// sampled tokens, drafts, how forwards ended, and what decisions took from the clock) and compares
// every step: what was scheduled, preempted, admitted and finished, block for block, with waits and
// totals. Needs no model. kInvalidArgument when the recording began in an engine that was already
// running. Memory does not grow with the recording's length.
Result<ReplayOutcome> replay(const TraceReader& reader);

}  // namespace quire
