#include "engine/core/scheduler.h"

#include <algorithm>

#include "engine/core/chunk_control.h"
#include "engine/core/mutation.h"
#include "kernels/check.h"

// The running requests' part of a step, and its end. admission.cpp has the waiting queue's part.
namespace quire {
namespace {

WorkKind work_kind(const Request& request) {
  if (!request.spec_token_ids.empty()) return WorkKind::kVerify;
  if (request.decoding()) return WorkKind::kDecode;
  return request.num_preemptions > 0 ? WorkKind::kRecompute : WorkKind::kPrefill;
}

bool is_prefill(const ScheduledWork& work) {
  return work.kind == WorkKind::kPrefill || work.kind == WorkKind::kRecompute;
}

// Keys read by `num_tokens` rows behind `computed` tokens.
std::int64_t keys_read(std::int64_t computed, std::int64_t num_tokens) {
  return num_tokens * computed + num_tokens * (num_tokens + 1) / 2;
}

// Adds (sign 1) or takes away (-1) what one entry costs.
void account(const ScheduledEntry& entry, int sign, Schedule& out) {
  const ScheduledWork& work = entry.work;
  const Request& request = *entry.request;
  const int end = work.num_computed_tokens + work.num_tokens;
  const std::int64_t keys = sign * keys_read(work.num_computed_tokens, work.num_tokens);
  out.budget_left -= sign * work.num_tokens;
  out.tokens.computed += sign * work.num_tokens;
  out.tokens.cached += sign * work.num_cached_tokens;
  out.tokens.recomputed +=
      sign * std::max(0, std::min(request.num_computed_peak, end) - work.num_computed_tokens);
  out.shape.num_samples +=
      sign * std::min(work.num_tokens, std::max(0, end - (request.num_tokens() - 1)));
  if (is_prefill(work)) {
    out.prefill_left -= sign * work.num_tokens;
    out.shape.prefill_tokens += sign * work.num_tokens;
    out.shape.prefill_pairs += keys;
  } else {
    out.shape.decode_tokens += sign * work.num_tokens;
    out.shape.decode_context += keys;
  }
}

}  // namespace

Scheduler::Scheduler(const EngineConfig& config, BlockManager& blocks, SwapPool& swap)
    : config_(config),
      blocks_(blocks),
      swap_(swap),
      last_budget_left_(config.max_num_batched_tokens),
      last_prefill_left_(config.max_num_batched_tokens) {}

// Most prefill tokens one request may get, whatever the step's state.
int Scheduler::request_limit() const {
  const int budget = config_.max_num_batched_tokens;
  const int threshold = config_.long_prefill_token_threshold;
  if (!config_.enable_chunked_prefill || threshold == 0) return budget;
  return std::min(budget, threshold);
}

int Scheduler::prefill_chunk(int num_tokens, const Schedule& out) const {
  return std::min({num_tokens, out.budget_left, out.prefill_left, request_limit()});
}

Schedule Scheduler::schedule(const DecisionInputs& inputs) {
  const bool must_progress = running_.empty() && !waiting_.empty();
  const std::int64_t evicted = blocks_.num_evicted_tokens();
  inputs_ = inputs;
  Schedule out;
  begin(inputs, out);
  schedule_running(out);
  admit_waiting(out);
  out.tokens.evicted = static_cast<int>(blocks_.num_evicted_tokens() - evicted);
  last_budget_left_ = out.budget_left;
  last_prefill_left_ = out.prefill_left;
  last_partial_prefills_ = num_partial_prefills(out);
  last_preempted_ = !out.preempted.empty();
  QUIRE_CHECK(!must_progress || !out.entries.empty(), waiting_.size(), blocks_.num_free());
  return out;
}

// Fixes the step's limits from the state it begins in.
void Scheduler::begin(const DecisionInputs& inputs, Schedule& out) const {
  ChunkState state;
  int num_taken = 0;
  for (Request* request : running_) {
    if (request->decoding()) {
      const int offset = request->num_computed_tokens % blocks_.block_size();
      if (offset == 0) ++num_taken;
      if (offset + 1 == blocks_.block_size())
        blocks_.prefetch_publish(*request, request->num_tokens());
      state.others_decoding = true;
      ++state.decodes.decode_tokens;
      ++state.decodes.num_samples;
      state.decodes.decode_context += request->num_tokens();
    } else if (state.prefill_computed == 0) {
      state.prefill_computed = request->num_computed_tokens;
    }
  }
  blocks_.prefetch_free(num_taken);
  out.contended = state.others_decoding;
  out.token_budget = out.budget_left = config_.max_num_batched_tokens;
  out.prefill_limit = out.token_budget;
  if (config_.enable_chunked_prefill)
    out.prefill_limit = std::min(out.prefill_limit, prefill_limit(config_, inputs, state));
  out.prefill_left = out.prefill_limit;
  out.chunk_limit = std::min(out.prefill_limit, request_limit());
}

// Under the priority policy the budget, too, goes to the higher priority first.
std::vector<Request*> Scheduler::running_order() const {
  std::vector<Request*> order = running_;
  if (config_.policy == SchedulingPolicy::kPriority)
    std::ranges::stable_sort(order, {}, &Request::priority);
  return order;
}

void Scheduler::schedule_running(Schedule& out) {
  out.entries.reserve(running_.size() + 1);
  for (Request* request : running_order()) {
    if (request->status != RequestStatus::kRunning) continue;
    const int wanted = request->num_tokens_with_spec() - request->num_computed_tokens;
    const bool decodes = request->decoding();
    int n = decodes ? std::min(wanted, out.budget_left) : prefill_chunk(wanted, out);
    if (!decodes && n < wanted) out.prefill_waiting = true;
    if (n > 0 && (fits_last_block(*request, n) || make_room(*request, n, out)))
      place(*request, n, out);
  }
}

// Whether `n` more tokens neither begin a block nor fill one: none to take, none to publish.
bool Scheduler::fits_last_block(const Request& request, int n) const {
  const int offset = request.num_computed_tokens % blocks_.block_size();
  return request.spec_token_ids.empty() && offset > 0 && offset + n < blocks_.block_size();
}

// False when `request` itself had to give way. Drafts go before anyone is preempted.
bool Scheduler::make_room(Request& request, int& num_tokens, Schedule& out) {
  const int drafts = static_cast<int>(request.spec_token_ids.size());
  if (drafts > 0) {
    const int kept = num_tokens - 1;
    request.spec_token_ids.resize(static_cast<std::size_t>(std::max(0, std::min(drafts, kept))));
    if (!blocks_.allocate_slots(request, request.num_computed_tokens + num_tokens)) {
      request.spec_token_ids.clear();
      num_tokens = 1;
    }
  }
  while (!blocks_.allocate_slots(request, request.num_computed_tokens + num_tokens)) {
    Request* victim = choose_victim();
    if (victim == nullptr) victim = &request;
    preempt(*victim, request, PreemptReason::kOutOfBlocks, out);
    if (victim == &request) return false;
  }
  return true;
}

// Of the lowest priority among the running requests whose blocks nobody adopted in this step.
Request* Scheduler::choose_victim() const {
  std::vector<Request*> candidates;
  for (Request* other : running_) {
    if (blocks_.fresh_blocks_shared(other->id)) continue;
    if (config_.policy == SchedulingPolicy::kPriority && !candidates.empty() &&
        other->priority != candidates.front()->priority) {
      if (other->priority < candidates.front()->priority) continue;
      candidates.clear();
    }
    candidates.push_back(other);
  }
  if (candidates.empty()) return nullptr;
  const VictimPolicy policy =
      config_.victim == VictimChoice::kCheapest ? cheapest_victim : last_victim;
  return policy(candidates, blocks_);
}

void Scheduler::preempt(Request& victim, const Request& needy, PreemptReason reason,
                        Schedule& out) {
  unschedule(victim, out);
  std::erase(running_, &victim);
  victim.spec_token_ids.clear();
  victim.num_computed_peak = std::max(victim.num_computed_peak, victim.num_computed_tokens);
  Preemption record{victim.id, needy.id, reason, static_cast<int>(blocks_.table(victim.id).size()),
                    0,         0};
  if (swap_out(victim, out)) {
    record.blocks_swapped = static_cast<int>(swap_.table(victim.id).size());
    victim.status = RequestStatus::kSwapped;
  } else {
    record.tokens_lost = victim.num_computed_tokens;
    blocks_.publish_tail(victim, victim.num_computed_tokens);
    victim.num_computed_tokens = 0;
    victim.outdated = false;
    victim.status = RequestStatus::kPreempted;
  }
  blocks_.free(victim.id);
  out.preempted.push_back(record);
  ++victim.num_preemptions;
  if (reason == PreemptReason::kPriority) ++victim.num_displaced;
  enqueue(victim);
}

// False when it is better, or only possible, to compute everything again.
bool Scheduler::swap_out(Request& victim, Schedule& out) {
  const int computed = victim.num_computed_tokens;
  const int num_blocks = blocks_.blocks_for(computed);
  if (config_.preemption_mode == PreemptionMode::kRecompute || num_blocks == 0) return false;
  if (config_.preemption_mode == PreemptionMode::kAuto &&
      !swap_is_cheaper(inputs_, computed, num_blocks))
    return false;
  if (!swap_.reserve(victim.id, num_blocks)) return false;
  const auto host = swap_.table(victim.id);
  const auto table = blocks_.table(victim.id);
  const int size = blocks_.block_size();
  for (int i = 0; i < num_blocks; ++i)
    out.moves.push_back({MoveKind::kSwapOut, index(table[i]), host[i],
                         std::min(size, computed - i * size), victim.id});
  return true;
}

// Takes back what this step planned for `victim`, if anything.
void Scheduler::unschedule(const Request& victim, Schedule& out) {
  if (take_back(victim, out)) blocks_.withdraw_published(victim.id);
}

bool Scheduler::take_back(const Request& request, Schedule& out) {
  const auto entry = std::ranges::find(out.entries, &request, &ScheduledEntry::request);
  if (entry == out.entries.end()) return false;
  account(*entry, -1, out);
  out.entries.erase(entry);
  return true;
}

void Scheduler::place(Request& request, int num_tokens, Schedule& out) {
  ScheduledEntry entry;
  entry.request = &request;
  entry.work = {request.id, num_tokens, work_kind(request), request.num_computed_tokens, 0};
  account(entry, 1, out);
  out.entries.push_back(entry);
  if (!fits_last_block(request, num_tokens))
    blocks_.publish(request, request.num_computed_tokens + num_tokens);
}

void Scheduler::commit(const Schedule& schedule) {
  for (const ScheduledEntry& entry : schedule.entries) {
    if (!mutated(Mutation::kStaleComputedTokens) || entry.work.num_cached_tokens == 0)
      entry.request->num_computed_tokens += entry.work.num_tokens;
    if (entry.status_before == RequestStatus::kSwapped && !mutated(Mutation::kHostBlocksKept))
      swap_.release(entry.request->id);
  }
  blocks_.commit_published();
}

void Scheduler::rollback(const Schedule& schedule) {
  blocks_.withdraw_published();
  for (auto entry = schedule.entries.rbegin(); entry != schedule.entries.rend(); ++entry) {
    Request& request = *entry->request;
    if (!entry->admitted) {
      blocks_.trim(request.id, request.num_computed_tokens);
      continue;
    }
    blocks_.free(request.id);
    request.num_computed_tokens = entry->num_computed_before;
    request.status = entry->status_before;
    if (request.status == RequestStatus::kWaiting) request.num_cached_tokens = 0;
    std::erase(running_, &request);
    enqueue(request);
    if (!entry->overtook) continue;
    for (Request* other : waiting_) {
      if (other == &request) break;
      --other->num_overtaken;
    }
  }
}

void Scheduler::release(Request& request) {
  if (request.status == RequestStatus::kRunning) {
    std::erase(running_, &request);
    blocks_.publish_tail(request, request.num_computed_tokens);
  } else {
    std::erase(waiting_, &request);
  }
  blocks_.free(request.id);
  swap_.release(request.id);
}

void Scheduler::check_integrity() const {
  for (const Request* request : running_) {
    const auto table = blocks_.table(request->id);
    QUIRE_CHECK(request->status == RequestStatus::kRunning, index(request->id));
    QUIRE_CHECK(request->num_computed_tokens < request->num_tokens(), index(request->id));
    QUIRE_CHECK(static_cast<int>(table.size()) == blocks_.blocks_for(request->num_computed_tokens),
                index(request->id), table.size(), request->num_computed_tokens);
    QUIRE_CHECK(swap_.table(request->id).empty(), index(request->id));
  }
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Request& request = *waiting_[i];
    const bool swapped = request.status == RequestStatus::kSwapped;
    QUIRE_CHECK(swapped || request.status == RequestStatus::kWaiting ||
                    request.status == RequestStatus::kPreempted,
                index(request.id));
    QUIRE_CHECK((request.num_computed_tokens > 0) == swapped, index(request.id));
    QUIRE_CHECK(blocks_.table(request.id).empty(), index(request.id));
    QUIRE_CHECK(static_cast<int>(swap_.table(request.id).size()) ==
                    blocks_.blocks_for(request.num_computed_tokens),
                index(request.id));
    if (i > 0) QUIRE_CHECK(!ahead(request, *waiting_[i - 1]), index(request.id));
  }
  swap_.check_integrity();
}

}  // namespace quire
