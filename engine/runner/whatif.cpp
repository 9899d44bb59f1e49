#include "engine/runner/whatif.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

namespace quire {
namespace {

// Between two steps of a busy engine lies what no phase counts (delivering, readers). A longer gap
// than this much of the step is a pause.
constexpr double kMostBetween = 0.5, kMostBetweenMs = 5;

struct MeasuredStep {
  StepShape shape;
  double ms = 0;
};

// What a recording says about its machine and its users, in one pass.
class Recording {
 public:
  explicit Recording(const TraceReader& reader) {
    TraceEvent event;
    for (TraceCursor cursor = reader.begin(); cursor.next(event);) {
      if (const auto* step = std::get_if<StepRecord>(&event)) take(*step);
      if (const auto* arrival = std::get_if<ArrivalRecord>(&event)) metrics_.on_arrival(*arrival);
      if (const auto* change = std::get_if<ReconfigureRecord>(&event))
        changes_.push_back({change->time_s, change->config});
      const auto* keyframe = std::get_if<EngineSnapshot>(&event);
      if (keyframe != nullptr && !before_) before_ = keyframe->totals;
    }
    flush(0);
  }

  // False when there is too little to learn from.
  bool fit(WhatIfResult& result) const {
    StepTimeFitter fitter(1e12);  // forgets nothing
    for (const MeasuredStep& step : steps_) fitter.observe(step.shape, step.ms);
    result.costs.step_time = fitter.fit();
    if (moved_blocks_ > 0) result.costs.move_us_per_block = move_us_ / moved_blocks_;
    result.steps = static_cast<std::int64_t>(steps_.size());
    Samples errors;
    for (const MeasuredStep& step : steps_)
      errors.add(std::abs(result.costs.step_time.predict_ms(step.shape) - step.ms) / step.ms);
    result.error_mean = errors.mean();
    result.error_p95 = errors.percentile(0.95);
    return result.costs.step_time.fitted;
  }

  const std::vector<TimedConfig>& changes() const { return changes_; }
  ServingReport report() const {
    EngineCounters totals = after_;
    const EngineCounters before = before_.value_or(EngineCounters{});
    for (std::int64_t EngineCounters::*count :
         {&EngineCounters::steps, &EngineCounters::prefix_cache_queries,
          &EngineCounters::prefix_cache_hits, &EngineCounters::preemptions,
          &EngineCounters::recomputed_tokens, &EngineCounters::evictions,
          &EngineCounters::swap_preemptions, &EngineCounters::blocks_swapped_in,
          &EngineCounters::blocks_swapped_out})
      totals.*count -= before.*count;
    return metrics_.report(totals);
  }

 private:
  void take(const StepRecord& record) {
    flush(record.times.start_s);
    metrics_.step(record);
    after_ = record.totals;
    if (record.outcome != StepOutcome::kCompleted || record.scheduled.empty()) return;
    pending_ = MeasuredStep{record.shape, record.times.total_us() * 1e-3};
    pending_start_s_ = record.times.start_s;
    pending_busy_ = record.num_running > 0;
    pending_move_us_ = record.times.move_us;
    for (const BlockMove& move : record.moves)
      if (move.kind != MoveKind::kCopy) ++moved_blocks_;
    move_us_ += record.times.move_us;
  }

  // A busy engine's step takes until the next one begins.
  void flush(double next_start_s) {
    if (!pending_) return;
    const double until_next_ms = (next_start_s - pending_start_s_) * 1e3;
    const double longest_ms = pending_->ms * (1 + kMostBetween) + kMostBetweenMs;
    if (pending_busy_ && until_next_ms > pending_->ms && until_next_ms < longest_ms)
      pending_->ms = until_next_ms;
    pending_->ms -= pending_move_us_ * 1e-3;
    if (pending_->ms > 0) steps_.push_back(*pending_);
    pending_.reset();
  }

  std::vector<MeasuredStep> steps_;
  std::optional<MeasuredStep> pending_;
  double pending_start_s_ = 0, pending_move_us_ = 0;
  bool pending_busy_ = false;
  double move_us_ = 0, moved_blocks_ = 0;
  ServingMetrics metrics_;
  std::optional<EngineCounters> before_;
  EngineCounters after_;
  std::vector<TimedConfig> changes_;
};

std::unique_ptr<Request> request_of(const RecordedRequest& recorded) {
  const ArrivalRecord& arrival = recorded.arrival;
  SamplingParams params = arrival.params;
  params.max_tokens = static_cast<int>(recorded.output.size());
  params.min_tokens = 0;
  params.ignore_eos = true;
  params.stop_token_ids.clear();
  params.stop.clear();
  auto request =
      std::make_unique<Request>(arrival.request, arrival.prompt_token_ids, std::move(params));
  request->cache_key = arrival.cache_key;
  request->cache_salt = arrival.cache_salt;
  request->priority = arrival.priority;
  return request;
}

// The recorded requests that got a token, as a workload with known answers.
class Requests {
 public:
  explicit Requests(std::vector<RecordedRequest> recorded) {
    for (RecordedRequest& request : recorded) {
      if (request.output.empty()) {
        ++left_out_;
        continue;
      }
      outputs_[request.arrival.request] = request.output;
      requests_.push_back(std::move(request));
    }
    std::ranges::stable_sort(requests_, {},
                             [](const RecordedRequest& r) { return r.arrival.time_s; });
  }

  RequestSource source() const {
    return [this, next = std::size_t{0}]() mutable -> std::optional<TimedRequest> {
      if (next == requests_.size()) return std::nullopt;
      const RecordedRequest& recorded = requests_[next++];
      return TimedRequest{recorded.arrival.time_s, request_of(recorded)};
    };
  }
  TokenId token(RequestId request, int place) const {
    return outputs_.at(request)[static_cast<std::size_t>(place)];
  }
  int left_out() const { return left_out_; }
  bool empty() const { return requests_.empty(); }

 private:
  std::vector<RecordedRequest> requests_;
  std::unordered_map<RequestId, std::vector<TokenId>> outputs_;
  int left_out_ = 0;
};

}  // namespace

Status apply_settings(EngineConfig& config, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      return make_error(ErrorCode::kInvalidArgument,
                        "A setting reads name=value, not \"" + setting + "\".");
    QUIRE_RETURN_IF_ERROR(
        set_config_field(config, setting.substr(0, equals), setting.substr(equals + 1)));
  }
  return validate(config);
}

Result<WhatIfResult> what_if(const TraceReader& reader, const std::vector<std::string>& settings) {
  WhatIfResult result;
  SimulationOptions options;
  options.config = reader.header().config;
  result.config = options.config;
  QUIRE_RETURN_IF_ERROR(apply_settings(result.config, settings));
  const Recording recording(reader);
  const Requests requests(recorded_requests(reader));
  if (!recording.fit(result) || requests.empty())
    return make_error(ErrorCode::kNotFound,
                      "The recording has too few steps with prompts and answers to tell what "
                      "this machine takes for them.");
  result.recorded = recording.report();
  result.left_out = requests.left_out();
  result.reconfigurations = static_cast<int>(recording.changes().size());
  options.changes = recording.changes();
  options.costs = result.costs;
  options.vocab_size = reader.header().vocab_size;
  options.tokens = [&](RequestId request, int place) { return requests.token(request, place); };
  QUIRE_TRY(const SimulationResult unchanged, simulate(options, requests.source()));
  options.config = result.config;
  for (TimedConfig& change : options.changes)
    QUIRE_RETURN_IF_ERROR(apply_settings(change.config, settings));
  QUIRE_TRY(const SimulationResult changed, simulate(options, requests.source()));
  result.unchanged = unchanged.report;
  result.changed = changed.report;
  result.refused = changed.refused;
  return result;
}

}  // namespace quire
