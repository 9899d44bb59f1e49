#pragma once

#include "engine/trace/trace_format.h"

// Whether the ids, counts and figures of what was read are in range, so that readers need not look
// again: request ids not negative, tokens in the header's vocabulary, blocks in its pool, counts
// not negative. Not whether they make sense together: a replay tells that.
namespace quire {

bool plausible(const ArrivalRecord& record, const TraceHeader& header);
bool plausible(const AbortRecord& record, const TraceHeader& header);
bool plausible(const ReconfigureRecord& record, const TraceHeader& header);
bool plausible(const CacheResetRecord& record, const TraceHeader& header);
bool plausible(const StepRecord& record, const TraceHeader& header);
bool plausible(const EngineSnapshot& snapshot, const TraceHeader& header);

}  // namespace quire
