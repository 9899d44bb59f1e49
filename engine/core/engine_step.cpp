#include "engine/core/engine_core_impl.h"
#include "kernels/check.h"

namespace quire {
namespace {

float microseconds(double seconds) {
  return static_cast<float>(seconds * 1e6);
}

void set_progress(const Request& request, RequestOutput& output) {
  output.request = request.id;
  output.finish_reason = request.finish_reason;
  output.stop_reason = request.stop_reason;
  output.num_prompt_tokens = request.num_prompt_tokens;
  output.num_computed_tokens = request.num_computed_tokens;
  output.num_cached_tokens = request.num_cached_tokens;
  output.num_output_tokens = request.num_output_tokens();
  output.num_preemptions = request.num_preemptions;
}

}  // namespace

std::vector<RequestOutput> EngineCore::Impl::step() {
  reap();
  std::vector<RequestOutput> outputs;
  const double start = clock();
  record.times.start_s = start;
  finish_empty_requests(outputs);
  const Schedule schedule = scheduler.schedule();
  note_plan(schedule);
  const double scheduled = clock();
  record.times.schedule_us = microseconds(scheduled - start);
  if (schedule.entries.empty()) {
    cancel.store(false);
    if (!record.finished.empty()) emit();
    return outputs;
  }
  const Prepared prepared = prepare(schedule);
  record.times.prepare_us = microseconds(clock() - scheduled);
  StepResult result;
  if (run(prepared, schedule, result)) {
    const double collected = clock();
    update(schedule, prepared, result, outputs);
    ++counters.steps;
    record.times.update_us = microseconds(clock() - collected);
  }
  emit();
  return outputs;
}

void EngineCore::Impl::finish_empty_requests(std::vector<RequestOutput>& outputs) {
  for (const RequestId id : zero_tokens) {
    const auto it = requests.find(id);
    if (it == requests.end()) continue;
    RequestOutput output;
    output.text = finish(*it->second, FinishReason::kLength, {});
    set_progress(*it->second, output);
    outputs.push_back(std::move(output));
  }
  zero_tokens.clear();
}

void EngineCore::Impl::note_plan(const Schedule& schedule) {
  record.token_budget = schedule.token_budget;
  record.chunk_limit = schedule.chunk_limit;
  record.preempted = schedule.preempted;
  counters.preemptions += static_cast<std::int64_t>(schedule.preempted.size());
  for (const ScheduledEntry& entry : schedule.entries) {
    record.scheduled.push_back(entry.work);
    if (entry.admitted) record.admitted.push_back(entry.request->id);
  }
}

EngineCore::Impl::Prepared EngineCore::Impl::prepare(const Schedule& schedule) const {
  Prepared prepared;
  std::vector<BatchEntry> entries;
  for (const ScheduledEntry& entry : schedule.entries)
    entries.push_back({entry.request, entry.work.num_tokens, blocks.table(entry.request->id)});
  prepared.batch = build_batch(entries, config.block_size);
  prepared.banned.reserve(entries.size());  // the rows keep spans of its elements
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int k = prepared.batch.sample_counts[i];
    const Request& request = *entries[i].request;
    QUIRE_CHECK(k <= 1, index(request.id), k);
    if (k == 0) continue;
    prepared.banned.push_back(banned_tokens(request));
    prepared.rows.push_back({request.id, &request.params, request.num_output_tokens(),
                             request.token_ids, request.num_prompt_tokens, prepared.banned.back()});
  }
  return prepared;
}

bool EngineCore::Impl::run(const Prepared& prepared, const Schedule& schedule, StepResult& result) {
  try {
    result = runner.collect(runner.launch(prepared.batch, prepared.rows, cancel));
  } catch (...) {
    fail_live_requests(schedule);
    throw;
  }
  cancel.store(false);
  record.times.prepare_us += static_cast<float>(result.prepare_us);
  record.times.forward_us = static_cast<float>(result.forward_us);
  record.times.sample_us = static_cast<float>(result.sample_us);
  if (!result.cancelled) return true;
  scheduler.rollback(schedule);
  record.outcome = StepOutcome::kCancelled;
  record.admitted.clear();
  return false;
}

void EngineCore::Impl::fail_live_requests(const Schedule& schedule) {
  cancel.store(false);
  scheduler.rollback(schedule);
  record.outcome = StepOutcome::kFailed;
  record.admitted.clear();
  std::vector<Request*> live = scheduler.running();
  live.insert(live.end(), scheduler.waiting().begin(), scheduler.waiting().end());
  for (Request* request : live) finish(*request, FinishReason::kError, {});
  blocks.reset_prefix_cache();  // what the failed forward left behind is unknown
  emit();
}

void EngineCore::Impl::update(const Schedule& schedule, const Prepared& prepared,
                              StepResult& result, std::vector<RequestOutput>& outputs) {
  QUIRE_CHECK(result.rows.size() == prepared.rows.size(), result.rows.size(), prepared.rows.size());
  count_admissions(schedule);
  scheduler.commit(schedule);
  std::size_t row = 0;
  for (std::size_t i = 0; i < schedule.entries.size(); ++i) {
    Request& request = *schedule.entries[i].request;
    if (request.first_scheduled_time_s < 0) request.first_scheduled_time_s = record.times.start_s;
    RequestOutput output;
    if (prepared.batch.sample_counts[i] > 0)
      deliver(request, std::move(result.rows[row++]), output);
    set_progress(request, output);
    outputs.push_back(std::move(output));
  }
}

void EngineCore::Impl::count_admissions(const Schedule& schedule) {
  for (const ScheduledEntry& entry : schedule.entries) {
    if (!entry.admitted) continue;
    if (config.enable_prefix_caching) {
      counters.prefix_cache_queries += entry.request->num_tokens();
      counters.prefix_cache_hits += entry.work.num_cached_tokens;
    }
    if (entry.status_before == RequestStatus::kWaiting)
      counters.prompt_tokens += entry.request->num_prompt_tokens;
  }
}

void EngineCore::Impl::deliver(Request& request, SampledRow row, RequestOutput& output) {
  QUIRE_CHECK(row.token >= 0 && row.token < runner.vocab_size(), row.token, index(request.id));
  request.token_ids.push_back(row.token);
  request.last_token_time_s = clock();
  if (request.first_token_time_s < 0) request.first_token_time_s = request.last_token_time_s;
  ++counters.generation_tokens;
  record.sampled.push_back({request.id, row.token});
  output.tokens.push_back(std::move(row));
  StopDecision stop = check_stop(request, output.text);
  if (stop.reason != FinishReason::kNone)
    output.text += finish(request, stop.reason, std::move(stop.stop_reason));
}

// In order: EOS and stop ids, stop strings, lengths.
StopDecision EngineCore::Impl::check_stop(const Request& request, std::string& text) {
  StopDecision stop = stop_by_token(request);
  if (stop.reason != FinishReason::kNone) return stop;
  if (processor != nullptr) {
    auto outcome =
        processor->on_token(request.id, request.token_ids.back(), stops_allowed(request));
    text = std::move(outcome.text);
    if (outcome.stop_string) return {FinishReason::kStop, std::move(*outcome.stop_string)};
  }
  return stop_by_length(request, config.effective_context());
}

}  // namespace quire
