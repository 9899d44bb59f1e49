#include "engine/trace/replay.h"

#include <fmt/format.h>

#include "engine/core/engine_core.h"
#include "engine/trace/record_text.h"
#include "engine/trace/replay_parts.h"
#include "engine/trace/step_difference.h"

namespace quire {
namespace {

class Replayer {
 public:
  explicit Replayer(const TraceHeader& header)
      : runner_(recorded_, header.vocab_size),
        decisions_(recorded_),
        drafter_(recorded_),
        text_(recorded_),
        core_(
            header.config, runner_, [this] { return now_s_; }, &text_) {
    core_.set_decision_source(&decisions_);
    core_.set_drafter(&drafter_);
    core_.add_sink(&sink_);
  }

  void operator()(const ArrivalRecord& arrival) {
    now_s_ = arrival.time_s;
    auto request =
        std::make_unique<Request>(arrival.request, arrival.prompt_token_ids, arrival.params);
    request->label = arrival.label;
    request->arrival_time_s = arrival.time_s;
    request->cache_key = arrival.cache_key;
    request->cache_salt = arrival.cache_salt;
    request->eos_token_ids = arrival.eos_token_ids;
    request->priority = arrival.priority;
    expect("the arrival of request " + text_of(arrival.request) + " was accepted",
           core_.add_request(std::move(request)));
  }

  void operator()(const AbortRecord& abort) {
    now_s_ = abort.time_s;
    if (!core_.abort_request(abort.request))
      differ("request " + text_of(abort.request) +
             " was aborted, but the replay has no such request");
  }

  void operator()(const ReconfigureRecord& change) {
    now_s_ = change.time_s;
    expect("the settings were changed", core_.reconfigure(change.config));
  }

  void operator()(const CacheResetRecord& reset) {
    now_s_ = reset.time_s;
    core_.reset_prefix_cache();
  }

  void operator()(const EngineSnapshot&) {}

  // The record of an abort or a reset was made by the event before it.
  void operator()(const StepRecord& step) {
    next_step_ = step.step;
    if (sink_.made == nullptr) run(step);
    const auto made = std::move(sink_.made);
    if (made == nullptr) return differ("the replay has nothing to do");
    const std::string difference = step_difference(step, *made);
    if (!difference.empty()) return differ(difference);
    ++outcome.steps_compared;
    ++next_step_;
  }

  ReplayOutcome outcome;

 private:
  void run(const StepRecord& step) {
    recorded_ = &step;
    now_s_ = step.times.start_s;
    try {
      core_.step();
    } catch (const DeviceError&) {
      // The record says so; it is compared like any other.
    }
    recorded_ = nullptr;
  }

  void expect(const std::string& what, const Status& status) {
    if (!status.ok()) differ(what + ", but the replay refuses: " + status.error().message);
  }

  void differ(const std::string& what) {
    outcome.differing_step = next_step_;
    outcome.difference =
        fmt::format("Step {} differs: {}{}", next_step_, what, what.ends_with('.') ? "" : ".");
  }

  RecordedStep recorded_ = nullptr;
  double now_s_ = 0;
  std::uint64_t next_step_ = 1;
  ReplayRunner runner_;
  ReplayDecisions decisions_;
  ReplayDrafter drafter_;
  ReplayText text_;
  ReplaySink sink_;
  EngineCore core_;
};

}  // namespace

Result<ReplayOutcome> replay(const TraceReader& reader) {
  if (!reader.starts_fresh())
    return make_error(ErrorCode::kInvalidArgument,
                      "This recording began in an engine that was already running, so its first "
                      "state is not known well enough to replay it; record from the start.");
  Replayer replayer(reader.header());
  TraceEvent event;
  for (TraceCursor cursor = reader.begin(); replayer.outcome.equal() && cursor.next(event);)
    std::visit(replayer, event);
  return replayer.outcome;
}

}  // namespace quire
