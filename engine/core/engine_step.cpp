#include <algorithm>

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
  record.inputs = decisions->next();
  const Schedule schedule = scheduler.schedule(record.inputs);
  note_plan(schedule);
  const double scheduled = clock();
  record.times.schedule_us = microseconds(scheduled - start);
  if (schedule.entries.empty()) {
    cancel.store(false);
    move_blocks(schedule);
    if (!record.finished.empty() || !record.preempted.empty()) emit();
    return outputs;
  }
  const Prepared prepared = prepare(schedule);
  record.times.prepare_us = microseconds(clock() - scheduled);
  StepResult result;
  if (run(prepared, schedule, result)) {
    const double collected = clock();
    update(schedule, prepared, result, outputs);
    ++counters.steps;
    const double end = clock();
    record.times.update_us = microseconds(end - collected);
    observe(schedule, (end - start) * 1e3);
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
  record.prefill_limit = schedule.prefill_limit;
  record.contended = schedule.contended;
  record.preempted = schedule.preempted;
  record.moves = schedule.moves;
  record.near_misses = schedule.near_misses;
  record.tokens = schedule.tokens;
  record.shape = schedule.shape;
  counters.preemptions += static_cast<std::int64_t>(schedule.preempted.size());
  for (const Preemption& preemption : schedule.preempted) {
    if (preemption.blocks_swapped > 0) ++counters.swap_preemptions;
    if (preemption.reason == PreemptReason::kPriority) ++counters.displacements;
  }
  for (const BlockMove& move : schedule.moves) {
    if (move.kind == MoveKind::kSwapOut) ++counters.blocks_swapped_out;
    if (move.kind == MoveKind::kSwapIn) ++counters.blocks_swapped_in;
  }
  record.scheduled.reserve(schedule.entries.size());
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
  // The rows keep spans of these elements.
  prepared.banned.reserve(prepared.batch.logits_indices.size());
  prepared.drafted.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    add_rows(*entries[i].request, prepared.batch.sample_counts[i], prepared);
  return prepared;
}

// One row per token to sample: behind the last known token and behind each draft.
void EngineCore::Impl::add_rows(const Request& request, int num_samples, Prepared& prepared) const {
  std::span<const TokenId> tokens = request.token_ids;
  if (num_samples > 1) {
    prepared.drafted.push_back(request.token_ids);
    auto& drafted = prepared.drafted.back();
    drafted.insert(drafted.end(), request.spec_token_ids.begin(), request.spec_token_ids.end());
    tokens = drafted;
  }
  for (int j = 0; j < num_samples; ++j) {
    const int output_index = request.num_output_tokens() + j;
    prepared.banned.push_back(banned_tokens(request, output_index));
    prepared.rows.push_back({request.id, &request.params, output_index,
                             tokens.first(static_cast<std::size_t>(request.num_tokens() + j)),
                             request.num_prompt_tokens, prepared.banned.back()});
  }
}

double EngineCore::Impl::move_blocks(const Schedule& schedule) {
  if (schedule.moves.empty()) return 0;
  try {
    return runner.move_blocks(schedule.moves);
  } catch (...) {
    fail_live_requests(schedule);
    throw;
  }
}

bool EngineCore::Impl::run(const Prepared& prepared, const Schedule& schedule, StepResult& result) {
  const double move_us = move_blocks(schedule);
  try {
    result = runner.collect(runner.launch(prepared.batch, prepared.rows, cancel));
    result.prepare_us += move_us;
    result.move_us = move_us;
  } catch (...) {
    fail_live_requests(schedule);
    throw;
  }
  cancel.store(false);
  record.times.prepare_us += static_cast<float>(result.prepare_us);
  record.times.forward_us = static_cast<float>(result.forward_us);
  record.times.move_us = static_cast<float>(result.move_us);
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
    const auto num_samples = static_cast<std::size_t>(prepared.batch.sample_counts[i]);
    const std::span<SampledRow> rows = std::span(result.rows).subspan(row, num_samples);
    row += num_samples;
    if (num_samples > 0) verify(request, rows, output);
    set_progress(request, output);
    outputs.push_back(std::move(output));
  }
  counters.recomputed_tokens += schedule.tokens.recomputed;
  if (drafter != nullptr) propose_drafts(schedule);
}

void EngineCore::Impl::verify(Request& request, std::span<SampledRow> rows, RequestOutput& output) {
  const std::vector<TokenId> drafts = std::move(request.spec_token_ids);
  request.spec_token_ids.clear();
  QUIRE_CHECK(rows.size() == drafts.size() + 1, rows.size(), drafts.size());
  std::size_t accepted = 0;
  while (accepted < drafts.size() && rows[accepted].token == drafts[accepted]) ++accepted;
  counters.draft_tokens += static_cast<std::int64_t>(drafts.size());
  counters.accepted_draft_tokens += static_cast<std::int64_t>(accepted);
  if (!drafts.empty())
    record.verified.push_back(
        {request.id, static_cast<int>(drafts.size()), static_cast<int>(accepted)});
  // The rejected drafts' keys and values go, before anything else can see or publish them.
  request.num_computed_tokens -= static_cast<int>(drafts.size() - accepted);
  if (accepted < drafts.size()) blocks.trim(request.id, request.num_computed_tokens);
  for (std::size_t i = 0; i <= accepted && !request.finished(); ++i) {
    // Accepted drafts behind a token that ends the request were never part of it.
    const int beyond = static_cast<int>(accepted - i);
    request.num_computed_tokens -= beyond;
    deliver(request, std::move(rows[i]), output);
    if (!request.finished()) request.num_computed_tokens += beyond;
  }
}

// Only requests that decode in the next step draft, and never past what they may still produce.
void EngineCore::Impl::propose_drafts(const Schedule& schedule) {
  for (const ScheduledEntry& entry : schedule.entries) {
    Request& request = *entry.request;
    if (request.finished() || !request.decoding()) continue;
    const int room = std::min(request.params.max_tokens - request.num_output_tokens(),
                              config.effective_context() - request.num_tokens());
    std::vector<TokenId> drafts = drafter->propose(request);
    drafts.resize(std::min(drafts.size(), static_cast<std::size_t>(std::max(0, room - 1))));
    const auto unknown = std::ranges::find_if(
        drafts, [&](TokenId id) { return id < 0 || id >= runner.vocab_size(); });
    drafts.erase(unknown, drafts.end());
    if (!drafts.empty()) record.drafted.push_back({request.id, drafts});
    request.spec_token_ids = std::move(drafts);
  }
}

void EngineCore::Impl::observe(const Schedule& schedule, double step_ms) {
  StepObservation seen;
  seen.shape = schedule.shape;
  seen.step_ms = step_ms;
  seen.contended = schedule.contended;
  seen.prefill_waiting = schedule.prefill_waiting;
  seen.max_itl_ms = config.max_itl_ms;
  for (const BlockMove& move : schedule.moves)
    if (move.kind != MoveKind::kCopy) ++seen.moved_blocks;
  seen.move_us = record.times.move_us;
  decisions->observe(seen);
}

void EngineCore::Impl::count_admissions(const Schedule& schedule) {
  for (const ScheduledEntry& entry : schedule.entries) {
    if (!entry.admitted) continue;
    if (config.enable_prefix_caching && entry.status_before != RequestStatus::kSwapped) {
      counters.prefix_cache_queries += entry.request->num_tokens();
      counters.prefix_cache_hits += entry.work.num_cached_tokens;
    }
    if (entry.partial_copy) ++counters.partial_copies;
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
