#pragma once

#include <cstdint>
#include <string>

#include "engine/core/step_record.h"
#include "engine/trace/reader.h"
#include "engine/trace/samples.h"

namespace quire {

struct Percentiles {
  std::int64_t count = 0;  // 0: the rest says nothing
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
// By nearest rank.
Percentiles percentiles(const Samples& samples);

// A whole recording in figures. Times are in milliseconds.
struct TraceStats {
  std::uint64_t steps = 0, cancelled_steps = 0, failed_steps = 0;
  double seconds = 0;  // from the first event to the last step's end
  std::int64_t arrivals = 0, finished = 0, aborted = 0, failed = 0;
  // Of tokens scheduled and completed.
  std::int64_t prefill_tokens = 0, decode_tokens = 0;
  std::int64_t output_tokens = 0;
  EngineCounters totals;  // what the recording added
  Percentiles step_ms, schedule_ms;
  Percentiles ttft_ms;  // arrival to the first output token
  Percentiles itl_ms;   // between two steps that sampled for a request
  double hit_rate() const {
    return totals.prefix_cache_queries == 0 ? 0
                                            : static_cast<double>(totals.prefix_cache_hits) /
                                                  static_cast<double>(totals.prefix_cache_queries);
  }
};

TraceStats trace_stats(const TraceReader& reader);

}  // namespace quire
