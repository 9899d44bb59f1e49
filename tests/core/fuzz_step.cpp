#include "tests/core/fuzz_step.h"

#include <algorithm>

// The plan's part: limits, running requests, the walk along the block events. fuzz_admission.cpp
// has preemptions and admissions, fuzz_outcome.cpp what the step did to its requests.
namespace quire::test {
namespace {

bool is_prefill(const ScheduledWork& work) {
  return work.kind == WorkKind::kPrefill || work.kind == WorkKind::kRecompute;
}

WorkKind kind_of(const ModelRequest& request, int num_tokens) {
  if (request.decoding()) return num_tokens > 1 ? WorkKind::kVerify : WorkKind::kDecode;
  return request.preemptions > 0 ? WorkKind::kRecompute : WorkKind::kPrefill;
}

}  // namespace

StepCheck::StepCheck(FuzzModel& model, const StepRecord& record)
    : model_(model),
      record_(record),
      budget_left_(record.token_budget),
      prefill_left_(record.prefill_limit) {}

bool StepCheck::is_victim(RequestId id) const {
  return std::ranges::any_of(record_.preempted,
                             [&](const Preemption& p) { return p.victim == id; });
}

const ScheduledWork* StepCheck::work_of(RequestId id) const {
  const auto it = std::ranges::find(record_.scheduled, id, &ScheduledWork::request);
  return it == record_.scheduled.end() ? nullptr : &*it;
}

void StepCheck::run() {
  end_empty_requests();
  check_limits();
  check_running_plan();
  for (const ScheduledWork& work : record_.scheduled)
    if (!model_.requests.at(work.request).waits()) place(work);
  walk_events();
  model_.pool.settle();
  check_totals();
}

void StepCheck::end_empty_requests() {
  std::vector<RequestId> empty;
  for (const auto& [id, request] : model_.requests)
    if (request.max_tokens == 0) empty.push_back(id);
  for (const RequestId id : empty) {
    const auto it = std::ranges::find(record_.finished, id, &FinishRecord::request);
    require(it != record_.finished.end() && it->reason == FinishReason::kLength &&
                it->num_output_tokens == 0,
            "whoever wants no token ends when the next step begins", index(id));
    model_.end(id);
    ++model_.totals.requests_finished;
    ++model_.tallies[Tally::kFinished];
  }
}

void StepCheck::check_limits() const {
  const EngineConfig& config = model_.config;
  const bool contended = std::ranges::any_of(
      model_.running, [&](RequestId id) { return model_.requests.at(id).decoding(); });
  require(record_.contended == contended, "a step is contended when a stream is decoding");
  require(record_.token_budget == config.max_num_batched_tokens,
          "the budget is the configured one");
  const int chunk = config.prefill_chunk.chunk(contended);
  const bool timed = config.max_itl_ms > 0 && contended && record_.inputs.step_time.fitted;
  int limit = record_.token_budget;
  if (config.enable_chunked_prefill && chunk > 0) limit = std::min(limit, chunk);
  if (!timed || !config.enable_chunked_prefill)
    require(record_.prefill_limit == limit, "prefill is limited by who is decoding",
            record_.prefill_limit, limit);
  require(record_.prefill_limit <= record_.token_budget, "prefill stays within the budget");
  require(record_.chunk_limit == std::min(record_.prefill_limit, model_.request_limit()),
          "a chunk is limited by the threshold", record_.chunk_limit);
  int total = 0, prefill = 0;
  for (const ScheduledWork& work : record_.scheduled) {
    const ModelRequest* request = const_cast<FuzzModel&>(model_).find(work.request);
    require(request != nullptr && work.num_tokens >= 1, "work is a live request's",
            index(work.request));
    require(std::ranges::count(record_.scheduled, work.request, &ScheduledWork::request) == 1,
            "a request is scheduled once", index(work.request));
    total += work.num_tokens;
    if (!is_prefill(work)) continue;
    prefill += work.num_tokens;
    require(work.num_tokens <= record_.chunk_limit, "a chunk stays within its limit",
            index(work.request), work.num_tokens);
  }
  require(total <= record_.token_budget, "a step stays within its budget", total);
  require(prefill <= record_.prefill_limit, "prefill stays within its limit", prefill);
  require(total == record_.tokens.computed, "what is scheduled is counted", total);
  require(prefill == record_.shape.prefill_tokens && total - prefill == record_.shape.decode_tokens,
          "the step's shape is its plan's", prefill, total);
}

// What every running request gets. Exactly, unless somebody's share came back in between.
void StepCheck::check_running_plan() const {
  std::vector<ModelRequest*> order;
  for (const RequestId id : model_.running) order.push_back(&model_.requests.at(id));
  if (model_.config.policy == SchedulingPolicy::kPriority)
    std::ranges::stable_sort(order, {}, &ModelRequest::priority);
  int budget = record_.token_budget, prefill = record_.prefill_limit;
  const bool exact = record_.preempted.empty();
  for (const ModelRequest* request : order) {
    const ScheduledWork* work = work_of(request->id);
    const int given = work == nullptr ? 0 : work->num_tokens;
    const bool decodes = request->decoding();
    const int wanted =
        model_.remaining(*request) + static_cast<int>(decodes ? request->drafts.size() : 0);
    const int fair = decodes ? std::min(wanted, budget)
                             : std::min({wanted, budget, prefill, model_.request_limit()});
    require(!exact || given == fair || (decodes && given == 1 && fair > 1),
            "a running request gets what the limits leave", index(request->id), given, fair);
    require(given <= wanted, "nobody computes more than it has", index(request->id), given);
    budget -= given;
    if (!decodes) prefill -= given;
    if (work == nullptr) continue;
    require(!is_victim(request->id), "a victim is not scheduled", index(request->id));
    require(work->num_computed_tokens == request->computed && work->num_cached_tokens == 0,
            "a running request goes on where it stands", index(request->id),
            work->num_computed_tokens, request->computed);
    require(work->kind == kind_of(*request, given), "work is of its kind", index(request->id));
  }
}

void StepCheck::place(const ScheduledWork& work) {
  placed_[work.request] = work.num_tokens;
  budget_left_ -= work.num_tokens;
  if (is_prefill(work)) prefill_left_ -= work.num_tokens;
  tokens_.computed += work.num_tokens;
  tokens_.cached += work.num_cached_tokens;
  const ModelRequest& request = model_.requests.at(work.request);
  tokens_.recomputed +=
      std::max(0, std::min(request.peak, work.num_computed_tokens + work.num_tokens) -
                      work.num_computed_tokens);
}

void StepCheck::walk_events() {
  for (std::size_t i = 0; i < record_.blocks.size(); ++i) {
    const BlockEvent& event = record_.blocks[i];
    before_event(i);
    if (event.kind == BlockEventKind::kEvict) {
      ++model_.totals.evictions;
      ++model_.tallies[Tally::kEvictions];
      if (!planned_) tokens_.evicted += static_cast<int>(model_.pool.at(event.block).run.size());
    }
    if (event.kind == BlockEventKind::kAdopt && model_.pool.at(event.block).fresh)
      ++model_.tallies[Tally::kSameStepAdoptions];
    model_.pool.apply(event, model_.find(event.request),
                      planned_ && record_.outcome == StepOutcome::kFailed);
  }
  if (!planned_) end_plan();
  for (const FinishRecord& finish : record_.finished)
    if (model_.find(finish.request) != nullptr) model_.end(finish.request);
}

// Recognises where in the stream of events a decision was made.
void StepCheck::before_event(std::size_t at) {
  const BlockEvent& event = record_.blocks[at];
  const bool gives_back =
      event.kind == BlockEventKind::kFree || event.kind == BlockEventKind::kRelease;
  if (next_preemption_ < record_.preempted.size()) {
    if (gives_back && event.request == record_.preempted[next_preemption_].victim)
      preempt(record_.preempted[next_preemption_++]);
    return;
  }
  const RequestId newcomer = starts_admission(at);
  if (newcomer != kNoRequest) {
    const ScheduledWork* work = work_of(newcomer);
    require(work != nullptr && !planned_, "only whoever is scheduled gets blocks", index(newcomer));
    return admit(*work);
  }
  if (planned_) return;
  ModelRequest* request = model_.find(event.request);
  if (request == nullptr || is_victim(event.request)) return;
  // An eviction takes with it what can then not be found: that is still planning.
  bool ends = gives_back || (event.kind == BlockEventKind::kWithdraw && !makes_room(at));
  if (event.kind == BlockEventKind::kPublish) {
    const auto position =
        std::ranges::find(request->table, event.block) - request->table.begin() + 1;
    ends = position * model_.config.block_size >
           std::min(request->num_tokens(), request->computed + placed_[event.request]);
  }
  if (ends) end_plan();
}

// Whether what is given up at `at` is given up for a block that is handed out.
bool StepCheck::makes_room(std::size_t at) const {
  while (at < record_.blocks.size() && (record_.blocks[at].kind == BlockEventKind::kEvict ||
                                        record_.blocks[at].kind == BlockEventKind::kWithdraw))
    ++at;
  return at < record_.blocks.size() && (record_.blocks[at].kind == BlockEventKind::kAlloc ||
                                        record_.blocks[at].kind == BlockEventKind::kAdopt);
}

// The waiting request whose admission the event at `at` begins, if any.
RequestId StepCheck::starts_admission(std::size_t at) const {
  std::size_t i = at;
  while (i < record_.blocks.size() && (record_.blocks[i].kind == BlockEventKind::kEvict ||
                                       record_.blocks[i].kind == BlockEventKind::kWithdraw))
    ++i;
  if (i == record_.blocks.size()) return kNoRequest;
  const BlockEvent& event = record_.blocks[i];
  if (event.kind != BlockEventKind::kAlloc && event.kind != BlockEventKind::kAdopt)
    return kNoRequest;
  const auto it = model_.requests.find(event.request);
  return it != model_.requests.end() && it->second.waits() ? event.request : kNoRequest;
}

// Running requests that the plan leaves in the middle of their input.
int StepCheck::num_partial() const {
  int partial = 0;
  for (const RequestId id : model_.running) {
    const ModelRequest& request = model_.requests.at(id);
    const auto placed = placed_.find(id);
    const int planned = placed == placed_.end() ? 0 : placed->second;
    if (!request.decoding() && planned < model_.remaining(request)) ++partial;
  }
  return partial;
}

void StepCheck::end_plan() {
  planned_ = true;
  require(next_preemption_ == record_.preempted.size(), "a victim gives its blocks back");
  std::size_t planned = 0;
  for (const ScheduledWork& work : record_.scheduled) planned += placed_.contains(work.request);
  require(planned == record_.scheduled.size(), "whoever is scheduled has blocks");
  check_moves();
  check_nobody_left_out();
  require(tokens_ == record_.tokens, "a step's tokens are counted", tokens_.cached,
          record_.tokens.cached, tokens_.recomputed, record_.tokens.recomputed, tokens_.evicted,
          record_.tokens.evicted);
  model_.last = {true, budget_left_, prefill_left_, num_partial(), !record_.preempted.empty()};
  switch (record_.outcome) {
    case StepOutcome::kCompleted:
      return complete();
    case StepOutcome::kCancelled:
      return cancel();
    case StepOutcome::kFailed:
      return fail();
  }
}

}  // namespace quire::test
