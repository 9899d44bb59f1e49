#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "engine/core/step_record.h"
#include "engine/trace/step_codec.h"
#include "engine/trace/trace_format.h"

namespace quire {

class Engine;

// Writes an engine's event stream to a .quiretrace file, readable by its owner only (mode 0600),
// since it holds prompts and answers. Writes go through a buffer, handed to the system once it is
// full or a second of recorded time has passed; nothing waits for a disk to sync. When a write
// fails the recording ends there, with a sentence in `error`, and the engine goes on unharmed.
// Every method may be called from any thread, one event at a time in their order.
class TraceRecorder : public EventSink, public std::enable_shared_from_this<TraceRecorder> {
 public:
  static constexpr int kKeyframeEvery = 1024;  // step records

  struct Options {
    TraceHeader header;
    // Hands a snapshot taken between two records to the function it is given, on the engine thread,
    // now or later. Without it there is no keyframe but the first.
    std::function<void(std::function<void(const EngineSnapshot&)>)> request_snapshot;
    // Called once, on the engine thread, when recording stops early; must not call the recorder.
    std::function<void(const std::string& sentence)> on_stopped;
  };

  // Creates `path`, or replaces a recording there; refuses to overwrite any other file. `first` is
  // the state the next record continues from.
  static Result<std::shared_ptr<TraceRecorder>> create(const std::string& path, Options options,
                                                       const EngineSnapshot& first);
  ~TraceRecorder() override;  // finishes

  void on_step(const std::shared_ptr<const StepRecord>& record) override;
  void on_arrival(const ArrivalRecord& record) override;
  void on_abort(const AbortRecord& record) override;
  void on_reconfigure(const ReconfigureRecord& record) override;
  void on_cache_reset(const CacheResetRecord& record) override;

  // Writes what is buffered and the mark of a whole recording, and closes the file.
  void finish();
  std::string error() const;  // one sentence; empty while all is well

 private:
  TraceRecorder(std::string path, int descriptor, Options options);

  template <typename Record>
  void append_event(FrameKind kind, const Record& record, double time_s);
  // These need the lock.
  void append(FrameKind kind, double time_s);
  void keyframe(const EngineSnapshot& snapshot);
  void flush();
  void stop(const std::string& reason);

  const std::string path_;
  const Options options_;

  mutable std::mutex mutex_;  // guards the members below
  int descriptor_;            // -1 once closed
  StepEncoder encoder_;
  std::string payload_;  // of the frame being made; kept for its memory
  std::string buffer_;
  double flushed_s_ = 0;  // recorded time of the last flush
  int steps_since_keyframe_ = 0;
  bool keyframe_asked_ = false;
  std::uint64_t num_steps_ = 0;
  std::string error_;
};

// Records a running engine: `header` is completed from it. Returns once recording runs, with
// nothing between the first keyframe and the first record. Blocks for the step in flight.
Result<std::shared_ptr<TraceRecorder>> record_engine(
    Engine& engine, const std::string& path, TraceHeader header,
    std::function<void(const std::string& sentence)> on_stopped);

}  // namespace quire
