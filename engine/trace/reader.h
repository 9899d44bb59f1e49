#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/mapped_file.h"
#include "engine/trace/step_codec.h"
#include "engine/trace/trace_format.h"

namespace quire {

// Walks a recording's events in order:
//   TraceEvent event;
//   for (TraceCursor cursor = reader.begin(); cursor.next(event);) ...
// Valid while its reader lives. Each cursor is for one thread.
class TraceCursor {
 public:
  // False at the end of what is whole. `event` begins with a keyframe (EngineSnapshot), and has one
  // at least every few thousand steps; reading may ignore those.
  bool next(TraceEvent& event);

 private:
  friend class TraceReader;
  TraceCursor(std::string_view bytes, const TraceHeader& header)
      : bytes_(bytes), header_(&header) {}
  bool decode(const TraceFrame& frame, TraceEvent& event);

  std::string_view bytes_;  // what is still to come
  const TraceHeader* header_;
  StepDecoder decoder_;
  bool started_ = false;  // a keyframe was read
  bool ended_ = false;    // the end mark was read
  std::uint64_t step_ = 0;
};

// A .quiretrace file from anywhere: nothing in it is trusted. It opens to its last whole frame;
// what stands behind a cut or a damage is not looked at. Ids, counts and figures of what it yields
// are in range: tokens in the header's vocabulary, blocks in its pool, counts not negative.
class TraceReader {
 public:
  static Result<std::unique_ptr<TraceReader>> open(const std::string& path);
  // `bytes` must outlive the reader. `label` names them in sentences.
  static Result<std::unique_ptr<TraceReader>> parse(std::string_view bytes, std::string label);

  const TraceHeader& header() const { return header_; }
  std::uint64_t num_steps() const { return num_steps_; }  // whole step records
  std::uint64_t first_step() const { return keyframes_.front().step + 1; }
  // Whether it began with an engine that had never done anything: only then can it be replayed.
  bool starts_fresh() const { return starts_fresh_; }
  // Empty when the recording was closed properly; else one sentence that says where it breaks off.
  const std::string& damage() const { return damage_; }

  TraceCursor begin() const { return {bytes_.substr(keyframes_.front().offset), header_}; }
  // Begins at the last keyframe at or before the record numbered `step`.
  TraceCursor seek(std::uint64_t step) const;

 private:
  struct Keyframe {
    std::uint64_t step = 0;
    std::size_t offset = 0;
  };
  TraceReader() = default;
  static Result<std::unique_ptr<TraceReader>> read(std::unique_ptr<TraceReader> reader,
                                                   std::string_view bytes, std::string label);
  void scan(const std::string& label);

  std::unique_ptr<MappedFile> file_;
  TraceHeader header_;
  std::string_view bytes_;  // the frames that are whole
  std::vector<Keyframe> keyframes_;
  std::uint64_t num_steps_ = 0;
  bool starts_fresh_ = false;
  std::string damage_;
};

// What became of one request, gathered from a whole recording.
struct RecordedRequest {
  ArrivalRecord arrival;
  std::uint64_t arrived_before_step = 0;  // the first record behind its arrival
  std::vector<TokenId> output;
  std::vector<double> token_times_s;          // when the step that sampled each token ended
  FinishReason finish = FinishReason::kNone;  // kNone: the recording ends before the request
  double finished_s = -1;
  int num_cached_tokens = 0;  // of its first admission
  int num_preemptions = 0;
};

// Every request that arrived in the recording, in order of arrival.
std::vector<RecordedRequest> recorded_requests(const TraceReader& reader);

// When a step ended, on the engine's clock.
inline double end_of(const StepRecord& record) {
  return record.times.start_s + static_cast<double>(record.times.total_us()) * 1e-6;
}

}  // namespace quire
