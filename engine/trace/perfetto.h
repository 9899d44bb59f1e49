#pragma once

#include <functional>
#include <string_view>

#include "engine/trace/reader.h"

namespace quire {

// A recording as Chrome trace event JSON, which ui.perfetto.dev opens: a track with every step and
// its phases, a track per request with what each step computed for it, counters for the pool, the
// queues and the tokens of a step, marks for arrivals, preemptions and ends. Times are microseconds
// since the recording's first event. `write` takes pieces of the text in order and returns false to
// end early.
void export_perfetto(const TraceReader& reader, const std::function<bool(std::string_view)>& write);

}  // namespace quire
