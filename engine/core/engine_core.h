#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/decision_inputs.h"
#include "engine/core/engine_config.h"
#include "engine/core/request.h"
#include "engine/core/runner.h"
#include "engine/core/step_record.h"
#include "engine/result.h"

namespace quire {

class BlockManager;
class Scheduler;

// Turns sampled tokens into text and finds stop strings, inside the update phase.
class OutputProcessor {
 public:
  struct Outcome {
    std::string text;  // whole characters ready for delivery
    std::optional<std::string>
        stop_string;  // set when a stop string matched; `text` ends before it
  };
  virtual ~OutputProcessor() = default;
  virtual void begin(const Request& request) = 0;
  // `stops_allowed` is false before min_tokens. The EOS or stop id that ends a request is not
  // passed here.
  virtual Outcome on_token(RequestId request, TokenId token, bool stops_allowed) = 0;
  // Text held back (part of a character, a possible start of a stop string); forgets the request.
  virtual std::string finish(RequestId request, FinishReason reason) = 0;
};

// What one step produced for one request.
struct RequestOutput {
  RequestId request = kNoRequest;
  std::vector<SampledRow> tokens;  // new output tokens; empty for a mid-prompt chunk
  std::string text;
  FinishReason finish_reason = FinishReason::kNone;
  std::string stop_reason;
  // Progress, for every scheduled request:
  int num_prompt_tokens = 0, num_computed_tokens = 0, num_cached_tokens = 0, num_output_tokens = 0;
  int num_preemptions = 0;
};

using Clock = std::function<double()>;  // seconds, monotone

// Proposes tokens to verify. Asked after every step for each request that is decoding; its answer
// is cut to what the context leaves.
class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual std::vector<TokenId> propose(const Request& request) = 0;
};

// The engine loop's one iteration: schedule, build the batch, run, sample, update, record.
// Deterministic given its calls, the runner and the clock; no thread, no I/O. Engine thread only,
// except `cancel_step`, which may be called from any thread.
class EngineCore {
 public:
  EngineCore(EngineConfig config, Runner& runner, Clock clock,
             OutputProcessor* output_processor = nullptr);
  ~EngineCore();

  // Readers are called in order on every record; they must outlive the core or be removed.
  void add_sink(EventSink* sink);
  void remove_sink(EventSink* sink);

  // Before the first step, or between two. Null: as without. Both must outlive the core.
  void set_drafter(Drafter* drafter);
  void set_decision_source(DecisionSource* source);
  // Called for every request that ends, whatever ended it, before its blocks are freed. `table` is
  // empty while the request waits.
  using FinishHook = std::function<void(const Request&, std::span<const BlockId> table)>;
  void set_on_finish(FinishHook hook);

  // Strict: refuses duplicates and whatever check_and_clamp refuses; kQueueFull past max_queue.
  Status add_request(std::unique_ptr<Request> request);
  // Frees everything the request holds at once. False if it is unknown or already finished.
  bool abort_request(RequestId id);
  // Makes the running forward stop between two layers; that step then changes nothing, except that
  // preemptions stand and requests with max_tokens 0 have finished. Between two steps it cancels
  // the next one, so that a cancel never comes too early to be seen.
  void cancel_step();

  // Runs one step. Empty when nothing could be scheduled or the step was cancelled.
  // Whatever the runner throws (DeviceError) finishes every live request with kError, empties the
  // pool and the prefix cache, and is rethrown.
  std::vector<RequestOutput> step();

  bool has_unfinished() const;
  int num_running() const;
  int num_waiting() const;
  const EngineConfig& config() const;
  const EngineCounters& counters() const;
  EngineSnapshot snapshot() const;
  // Every waiting request has exactly one reason: a pure function of the present state. kNone with
  // a waiting request: nothing holds it, the next step admits it.
  WaitState wait_state(RequestId id) const;
  // Also finds a finished request until the next step begins; null otherwise.
  const Request* find(RequestId id) const;
  void reset_prefix_cache();
  // Changes the settings that config_fields() calls live; a change of any other is refused, and so
  // is one that a request in the engine could not finish under.
  Status reconfigure(const EngineConfig& config);
  // The pool equation and every cross-reference; aborts (QUIRE_CHECK) on the first violation.
  void check_integrity() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
