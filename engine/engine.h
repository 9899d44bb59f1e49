#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/engine_core.h"
#include "engine/core/step_record.h"
#include "engine/result.h"

namespace quire {

struct GenerationRequest {
  std::vector<TokenId> prompt_token_ids;
  SamplingParams params;
  std::string label;      // "chat", "api", ...: who asked, shown in views and logs
  std::string cache_key;  // isolates its prefix-cache entries when not empty
  // Keeps its prefix-cache entries from requests with another salt (a tenant's secret).
  std::string cache_salt;
  int priority = 0;
};

// Where a request stands.
enum class GenerationState : std::uint8_t { kQueued, kPrefill, kDecoding, kFinished };

// One update of one request. Text and tokens are what is new since the last update.
struct GenerationUpdate {
  RequestId request = kNoRequest;
  GenerationState state = GenerationState::kQueued;
  std::string text;
  std::vector<SampledRow> tokens;
  FinishReason finish_reason = FinishReason::kNone;
  std::string stop_reason;
  std::string error;       // a sentence, when finish_reason is kError
  int queue_position = 0;  // requests ahead of it, while queued
  int num_prompt_tokens = 0, num_computed_tokens = 0, num_cached_tokens = 0, num_output_tokens = 0;
  int num_preemptions = 0;
  // Seconds since submit; -1 until it happened.
  double first_scheduled_s = -1, first_token_s = -1, last_token_s = -1;
};

// Receives a request's updates on the engine thread: must be quick and must not call back into the
// engine except `abort`. Returning false says the listener is gone and aborts the request. The last
// update has kFinished, and comes exactly once for every successful submit.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual bool on_update(const GenerationUpdate& update) = 0;
};

// A reader that may lose records rather than hold the engine up. One per view; drained from one
// thread.
class StepRing {
 public:
  virtual ~StepRing() = default;
  // Appends what arrived since the last call, oldest first. Returns how many records were lost
  // before them; after a loss, rejoin from a snapshot.
  virtual std::uint64_t drain(std::vector<std::shared_ptr<const StepRecord>>& target) = 0;
};

// One loaded model's engine: EngineCore in one thread with one inbox. Lives as long as the model it
// runs. Every method may be called from any thread unless it says otherwise; none blocks on a
// running step except where said.
class Engine {
 public:
  struct Options {
    EngineConfig config;
    bool start_paused = false;
    std::vector<TokenId> eos_token_ids = {};  // end every request that does not ignore them
    double swap_us_per_block = 0;             // first estimate of a block's way out or in; 0 = none
  };
  // `runner` and `output_processor` are used by the engine's thread only.
  static std::unique_ptr<Engine> create(Options options, std::unique_ptr<Runner> runner,
                                        std::unique_ptr<OutputProcessor> output_processor);
  // Aborts what is left and joins the thread.
  virtual ~Engine() = default;

  // Everything checkable is checked here, before anything is queued: see check_and_clamp;
  // kQueueFull, kNotReady when stopping or failed. The sink's first update (kQueued) comes at once
  // from the engine thread.
  virtual Result<RequestId> submit(GenerationRequest request,
                                   std::shared_ptr<RequestSink> sink) = 0;
  virtual void abort(RequestId id) = 0;

  // Teaching mode: `pause` holds the loop between steps, `step(n)` lets n steps run. Requests keep
  // arriving; those that came before resume() or step() are there in the first step it allows.
  virtual void pause() = 0;
  virtual void resume() = 0;
  virtual void step(int n) = 0;
  virtual bool paused() const = 0;

  virtual Status reconfigure(
      const EngineConfig& config) = 0;  // live settings only; waits for the step in flight
  virtual EngineConfig config() const = 0;
  virtual int vocab_size() const = 0;
  virtual int num_unfinished() const = 0;

  // The snapshot is made between two steps and handed to `done` on the engine thread.
  virtual void request_snapshot(std::function<void(EngineSnapshot)> done) = 0;
  virtual EngineSnapshot snapshot() = 0;  // waits for the step in flight; not for the GUI thread
  virtual std::shared_ptr<StepRing> open_ring(
      std::size_t capacity) = 0;  // closed when the pointer is dropped
  virtual void add_sink(std::shared_ptr<EventSink> sink) = 0;
  virtual void remove_sink(const std::shared_ptr<EventSink>& sink) = 0;
  virtual void reset_prefix_cache() = 0;

  // Stops admitting; returns true once everything unfinished is done, or false after `timeout_s`,
  // when the rest is aborted. submit fails with kNotReady from then on.
  virtual bool drain(double timeout_s) = 0;
  // Set once the device failed: a sentence; empty while healthy.
  virtual std::string failure() const = 0;
  // Seconds on the clock every record's times are on.
  virtual double now() const = 0;
  // Steps completed: grows while the engine makes progress. For /health.
  virtual std::uint64_t steps_completed() const = 0;
};

}  // namespace quire
