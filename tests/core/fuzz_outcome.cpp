#include <algorithm>

#include "tests/core/fuzz_step.h"

// What a step did to its requests, and whether the engine's own account agrees.
namespace quire::test {

void StepCheck::complete() {
  if (!record_.scheduled.empty()) {
    ++model_.tallies[Tally::kSteps];
    ++model_.totals.steps;
  }
  require(record_.admitted == admissions_, "admissions are told in order", admissions_.size());
  model_.totals.recomputed_tokens += record_.tokens.recomputed;
  for (const auto& [id, before] : admitted_) {
    ModelRequest& request = model_.requests.at(id);
    const ScheduledWork& work = *work_of(id);
    if (before.status == RequestStatus::kSwapped) {
      for (const std::int32_t block : request.host) model_.host_used.erase(block);
      request.host.clear();
      ++model_.tallies[Tally::kSwapIns];
      continue;
    }
    if (before.status == RequestStatus::kWaiting) model_.totals.prompt_tokens += request.num_prompt;
    if (!model_.config.enable_prefix_caching) continue;
    model_.totals.prefix_cache_queries += request.num_tokens();
    model_.totals.prefix_cache_hits += work.num_cached_tokens;
    if (work.num_cached_tokens % model_.config.block_size == 0) continue;
    ++model_.totals.partial_copies;
    ++model_.tallies[Tally::kPartialCopies];
  }
  for (const ScheduledWork& work : record_.scheduled) deliver(work);
  for (const FinishRecord& finish : record_.finished)
    require(finish.num_output_tokens == 0 || work_of(finish.request) != nullptr,
            "only whoever ran ends by itself", index(finish.request));
}

// Every sampled token is the next one of the answer given alone; the last one ends the request.
void StepCheck::deliver(const ScheduledWork& work) {
  ModelRequest& request = model_.requests.at(work.request);
  std::vector<TokenId> sampled;
  for (const SampledToken& token : record_.sampled)
    if (token.request == work.request) sampled.push_back(token.token);
  std::vector<TokenId> drafts = std::move(request.drafts);
  request.drafts.clear();
  request.computed = work.num_computed_tokens + work.num_tokens;
  const bool reached = request.computed >= request.num_tokens();
  require(sampled.empty() != reached, "whoever has all its input computed samples",
          index(request.id), sampled.size());
  if (!reached) return;
  drafts.resize(work.kind == WorkKind::kVerify ? static_cast<std::size_t>(work.num_tokens - 1) : 0);
  std::size_t accepted = 0;
  while (accepted < drafts.size() && accepted < sampled.size() &&
         sampled[accepted] == drafts[accepted])
    ++accepted;
  for (const TokenId token : sampled) {
    const auto at = static_cast<std::size_t>(request.num_output());
    require(at < request.answer.size() && token == request.answer[at],
            "every token is the one given alone", index(request.id), at, token);
    request.tokens.push_back(token);
  }
  request.computed = request.num_tokens() - 1;
  const bool ends = request.num_output() == static_cast<int>(request.answer.size());
  const auto finish = std::ranges::find(record_.finished, request.id, &FinishRecord::request);
  require(ends == (finish != record_.finished.end()), "a request ends with its answer",
          index(request.id), request.num_output());
  require(ends || sampled.size() == accepted + 1, "drafts are accepted while they are right",
          index(request.id), accepted, sampled.size());
  model_.totals.generation_tokens += static_cast<std::int64_t>(sampled.size());
  model_.totals.draft_tokens += static_cast<std::int64_t>(drafts.size());
  model_.tallies[Tally::kAcceptedDrafts] += static_cast<std::int64_t>(accepted);
  model_.tallies[Tally::kRejectedDrafts] += static_cast<std::int64_t>(drafts.size() - accepted);
  if (!ends) return;
  require(finish->num_output_tokens == request.num_output() &&
              (finish->reason == FinishReason::kStop || finish->reason == FinishReason::kLength),
          "an end is told as it was", index(request.id));
  ++model_.totals.requests_finished;
  ++model_.tallies[Tally::kFinished];
}

// The step did not run: its admissions are back in the queue, preemptions stand.
void StepCheck::cancel() {
  ++model_.tallies[Tally::kCancelledSteps];
  require(record_.sampled.empty() && record_.admitted.empty(), "a cancelled step yields nothing");
  for (auto id = admissions_.rbegin(); id != admissions_.rend(); ++id) {
    ModelRequest& request = model_.requests.at(*id);
    request.status = admitted_.at(*id).status;
    request.computed = admitted_.at(*id).computed;
    std::erase(model_.running, *id);
    for (const RequestId other : overtaken_by_[*id]) --model_.requests.at(other).overtaken;
  }
  for (const ScheduledWork& work : record_.scheduled) {
    auto& drafts = model_.requests.at(work.request).drafts;
    const auto tried = static_cast<std::size_t>(work.num_tokens - 1);
    if (model_.requests.at(work.request).decoding()) drafts.resize(std::min(drafts.size(), tried));
  }
}

void StepCheck::fail() {
  cancel();
  --model_.tallies[Tally::kCancelledSteps];
  ++model_.tallies[Tally::kFailedSteps];
  for (const auto& [id, request] : model_.requests) {
    const auto finish = std::ranges::find(record_.finished, id, &FinishRecord::request);
    require(finish != record_.finished.end() && finish->reason == FinishReason::kError,
            "a failed device ends every live request", index(id));
    ++model_.totals.requests_finished;
  }
}

void StepCheck::check_totals() {
  EngineCounters& ours = model_.totals;
  const EngineCounters& told = record_.totals;
  // Which drafts behind an end were right is not told.
  require(told.accepted_draft_tokens >= ours.accepted_draft_tokens &&
              told.accepted_draft_tokens <= told.draft_tokens,
          "accepted drafts are some of the drafts", told.accepted_draft_tokens);
  ours.accepted_draft_tokens = told.accepted_draft_tokens;
  require(ours == told, "counters are the sums of the records", ours.preemptions, told.preemptions,
          ours.prefix_cache_hits, told.prefix_cache_hits, ours.evictions, told.evictions,
          ours.recomputed_tokens, told.recomputed_tokens, ours.partial_copies, told.partial_copies,
          ours.requests_finished, told.requests_finished);
}

void check_between_steps(FuzzModel& model, const StepRecord& record, bool reset) {
  require(record.scheduled.empty() && record.preempted.empty() && record.moves.empty(),
          "nothing runs between two steps");
  for (const BlockEvent& event : record.blocks) {
    if (event.kind == BlockEventKind::kEvict) ++model.totals.evictions;
    model.pool.apply(event, model.find(event.request), reset);
  }
  for (const FinishRecord& finish : record.finished) {
    require(finish.reason == FinishReason::kAborted, "between two steps requests end by an abort");
    model.end(finish.request);
    ++model.totals.requests_aborted;
  }
  if (reset) {
    require(model.pool.num_hashed() == 0, "a reset forgets everything", model.pool.num_hashed());
    model.reset();
  }
  model.pool.settle();
  require(model.totals == record.totals, "counters are the sums of the records");
}

namespace {

void check_requests(FuzzModel& model, const EngineSnapshot& snapshot) {
  std::vector<RequestId> expected = model.running;
  for (const ModelRequest* request : model.waiting()) expected.push_back(request->id);
  require(expected.size() == snapshot.requests.size(), "the engine knows the live requests",
          expected.size(), snapshot.requests.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const RequestView& view = snapshot.requests[i];
    const ModelRequest& request = model.requests.at(expected[i]);
    require(view.id == request.id, "requests stand in their order", index(view.id),
            index(request.id));
    require(view.status == request.status && view.num_computed_tokens == request.computed &&
                view.num_tokens == request.num_tokens() &&
                view.num_preemptions == request.preemptions && view.block_table == request.table,
            "a request's state follows from its records", index(view.id), view.num_computed_tokens,
            request.computed, view.block_table.size(), request.table.size());
    if (request.waits())
      model.check_wait(view.wait);
    else
      require(view.wait.reason == WaitReason::kNone, "whoever runs does not wait", index(view.id));
  }
}

// Records tell changed reasons, and only those.
void check_told_waits(FuzzModel& model, const StepRecord& record, const EngineSnapshot& snapshot) {
  const auto placed = [](const WaitState& state) {
    return state.reason == WaitReason::kBehind || state.reason == WaitReason::kAging;
  };
  const auto same = [&](const WaitState& a, const WaitState& b) {
    return a.reason == b.reason && (placed(a) || a.shortfall == b.shortfall);
  };
  for (const RequestId id : model.running) model.waits.erase(id);
  for (const WaitState& state : record.waits) {
    const auto before = model.waits.find(state.request);
    require(before == model.waits.end() || !same(before->second, state),
            "a wait is told when it changed", index(state.request));
    model.waits[state.request] = state;
  }
  for (const RequestView& view : snapshot.requests) {
    if (view.status == RequestStatus::kRunning) continue;
    const auto told = model.waits.find(view.id);
    require(told != model.waits.end() && same(told->second, view.wait),
            "every change of a wait is told", index(view.id));
  }
}

}  // namespace

void check_snapshot(FuzzModel& model, const StepRecord& record, const EngineSnapshot& snapshot) {
  check_requests(model, snapshot);
  check_told_waits(model, record, snapshot);
  model.pool.check(model.requests);
  for (std::size_t b = 0; b < snapshot.blocks.size(); ++b) {
    const BlockView& view = snapshot.blocks[b];
    const ModelBlock& block = model.pool.at(BlockId{static_cast<std::int32_t>(b)});
    require(
        view.ref_count == block.refs && view.hashed == block.hashed && view.owner == block.owner,
        "a block's state follows from its events", b, view.ref_count, block.refs);
  }
  require(record.num_free_blocks == model.pool.num_free() &&
              record.num_cached_blocks == model.pool.num_cached() &&
              record.num_blocks == model.pool.num_blocks() &&
              record.num_running == static_cast<int>(model.running.size()) &&
              record.num_running + record.num_waiting == static_cast<int>(model.requests.size()),
          "a record's counts are true", record.num_free_blocks, model.pool.num_free());
}

}  // namespace quire::test
