#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/trace/reader.h"
#include "engine/trace/recorder.h"
#include "tests/core/harness.h"
#include "tests/support/dice.h"

namespace quire::test {

// Keeps everything an engine tells, in order.
class EventLog : public EventSink {
 public:
  void on_step(const std::shared_ptr<const StepRecord>& record) override {
    events.emplace_back(*record);
  }
  void on_arrival(const ArrivalRecord& record) override { events.emplace_back(record); }
  void on_abort(const AbortRecord& record) override { events.emplace_back(record); }
  void on_reconfigure(const ReconfigureRecord& record) override { events.emplace_back(record); }
  void on_cache_reset(const CacheResetRecord& record) override { events.emplace_back(record); }

  std::vector<TraceEvent> events;
};

struct BusyRun {
  TraceHeader header;
  std::vector<TraceEvent> events;  // without keyframes
};

// `num_steps` steps of a random engine under random load, recorded to `path`: every policy, swaps,
// drafts, stop strings, aborts, cancelled and failed steps, resets, changed settings.
BusyRun record_busy_run(const std::string& path, unsigned seed, int num_steps);

// Writes `events` as a recording of a fresh engine.
void write_recording(const std::string& path, const TraceHeader& header,
                     const std::vector<TraceEvent>& events);

std::vector<TraceEvent> read_events(const TraceReader& reader, bool with_keyframes = false);
std::string read_file(const std::string& path);

}  // namespace quire::test
