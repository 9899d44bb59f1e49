#include "engine/trace/stats.h"

#include <unordered_map>

namespace quire {
namespace {

EngineCounters difference(const EngineCounters& after, const EngineCounters& before) {
  EngineCounters result;
  for (const auto field : {&EngineCounters::steps, &EngineCounters::prefix_cache_queries,
                           &EngineCounters::prefix_cache_hits, &EngineCounters::preemptions,
                           &EngineCounters::prompt_tokens, &EngineCounters::generation_tokens,
                           &EngineCounters::evictions, &EngineCounters::recomputed_tokens,
                           &EngineCounters::swap_preemptions, &EngineCounters::displacements,
                           &EngineCounters::blocks_swapped_out, &EngineCounters::blocks_swapped_in,
                           &EngineCounters::partial_copies, &EngineCounters::draft_tokens,
                           &EngineCounters::accepted_draft_tokens,
                           &EngineCounters::requests_finished, &EngineCounters::requests_aborted})
    result.*field = static_cast<std::int64_t>(static_cast<std::uint64_t>(after.*field) -
                                              static_cast<std::uint64_t>(before.*field));
  return result;
}

class Gatherer {
 public:
  void operator()(const EngineSnapshot& snapshot) {
    if (!std::exchange(started_, true)) first_ = snapshot.totals;
  }
  void operator()(const ArrivalRecord& arrival) {
    note(arrival.time_s);
    ++stats.arrivals;
    live_[arrival.request] = {arrival.time_s, -1};
  }
  void operator()(const StepRecord& step) {
    note(step.times.start_s);
    end_s_ = end_of(step);
    ++stats.steps;
    if (step.outcome == StepOutcome::kCancelled) ++stats.cancelled_steps;
    if (step.outcome == StepOutcome::kFailed) ++stats.failed_steps;
    if (step.outcome == StepOutcome::kCompleted && !step.scheduled.empty()) add_completed(step);
    add_tokens(step);
    for (const FinishRecord& finish : step.finished) add_finish(finish);
    stats.totals = difference(step.totals, first_);
  }
  template <typename Other>
  void operator()(const Other& event) {
    note(event.time_s);
  }

  TraceStats done() {
    stats.seconds = stats.steps > 0 ? end_s_ - begin_s_ : 0;
    stats.step_ms = percentiles(step_ms_);
    stats.schedule_ms = percentiles(schedule_ms_);
    stats.ttft_ms = percentiles(ttft_ms_);
    stats.itl_ms = percentiles(itl_ms_);
    return stats;
  }

  TraceStats stats;

 private:
  struct Live {
    double arrived_s = 0, last_token_s = -1;
  };

  void note(double time_s) {
    if (!std::exchange(timed_, true)) begin_s_ = time_s;
  }
  void add_completed(const StepRecord& step) {
    step_ms_.add(static_cast<double>(step.times.total_us()) / 1e3);
    schedule_ms_.add(static_cast<double>(step.times.schedule_us) / 1e3);
    stats.prefill_tokens += step.shape.prefill_tokens;
    stats.decode_tokens += step.shape.decode_tokens;
  }
  // Tokens that came in one step have no pause between them.
  void add_tokens(const StepRecord& step) {
    RequestId last = kNoRequest;
    for (const SampledToken& sampled : step.sampled) {
      ++stats.output_tokens;
      const auto it = live_.find(sampled.request);
      if (it == live_.end() || std::exchange(last, sampled.request) == sampled.request) continue;
      Live& request = it->second;
      if (request.last_token_s < 0)
        ttft_ms_.add((end_s_ - request.arrived_s) * 1e3);
      else
        itl_ms_.add((end_s_ - request.last_token_s) * 1e3);
      request.last_token_s = end_s_;
    }
  }
  void add_finish(const FinishRecord& finish) {
    live_.erase(finish.request);
    if (finish.reason == FinishReason::kAborted)
      ++stats.aborted;
    else if (finish.reason == FinishReason::kError)
      ++stats.failed;
    else
      ++stats.finished;
  }

  std::unordered_map<RequestId, Live> live_;
  Samples step_ms_, schedule_ms_, ttft_ms_, itl_ms_;
  EngineCounters first_;
  bool started_ = false, timed_ = false;
  double begin_s_ = 0, end_s_ = 0;
};

}  // namespace

Percentiles percentiles(const Samples& samples) {
  return {static_cast<std::int64_t>(samples.size()),
          samples.mean(),
          samples.percentile(0.5),
          samples.percentile(0.9),
          samples.percentile(0.95),
          samples.percentile(0.99),
          samples.max()};
}

TraceStats trace_stats(const TraceReader& reader) {
  Gatherer gather;
  TraceEvent event;
  for (TraceCursor cursor = reader.begin(); cursor.next(event);) std::visit(gather, event);
  return gather.done();
}

}  // namespace quire
