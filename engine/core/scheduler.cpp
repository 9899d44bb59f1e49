#include "engine/core/scheduler.h"

#include <algorithm>

#include "kernels/check.h"

namespace quire {
namespace {

WorkKind work_kind(const Request& request) {
  if (!request.spec_token_ids.empty()) return WorkKind::kVerify;
  if (request.decoding()) return WorkKind::kDecode;
  return request.num_preemptions > 0 ? WorkKind::kRecompute : WorkKind::kPrefill;
}

}  // namespace

Request* newest_victim(std::span<Request* const> candidates, const Request&) {
  return candidates.back();
}

Scheduler::Scheduler(const EngineConfig& config, BlockManager& blocks, VictimPolicy victim)
    : config_(config),
      blocks_(blocks),
      choose_victim_(victim),
      last_budget_left_(config.max_num_batched_tokens) {}

int Scheduler::chunk_limit() const {
  const int budget = config_.max_num_batched_tokens;
  const int threshold = config_.long_prefill_token_threshold;
  if (!config_.enable_chunked_prefill || threshold == 0) return budget;
  return std::min(budget, threshold);
}

int Scheduler::chunk(int num_tokens, int budget) const {
  return std::min({num_tokens, budget, chunk_limit()});
}

Schedule Scheduler::schedule() {
  const bool must_progress = running_.empty() && !waiting_.empty();
  Schedule out;
  out.token_budget = out.budget_left = config_.max_num_batched_tokens;
  out.chunk_limit = chunk_limit();
  schedule_running(out);
  admit_waiting(out);
  last_budget_left_ = out.budget_left;
  last_preempted_ = !out.preempted.empty();
  QUIRE_CHECK(!must_progress || !out.entries.empty(), waiting_.size(), blocks_.num_free());
  return out;
}

void Scheduler::schedule_running(Schedule& out) {
  const std::vector<Request*> order = running_;
  for (Request* request : order) {
    if (out.budget_left == 0) break;
    if (request->status != RequestStatus::kRunning) continue;
    const int n =
        chunk(request->num_tokens_with_spec() - request->num_computed_tokens, out.budget_left);
    if (n > 0 && make_room(*request, n, out)) place(*request, n, out);
  }
}

// False when `request` itself had to give way.
bool Scheduler::make_room(Request& request, int num_tokens, Schedule& out) {
  while (!blocks_.allocate_slots(request, num_tokens)) {
    std::vector<Request*> candidates;
    for (Request* other : running_)
      if (!blocks_.fresh_blocks_shared(other->id)) candidates.push_back(other);
    Request* victim = candidates.empty() ? &request : choose_victim_(candidates, request);
    preempt(*victim, request, out);
    if (victim == &request) return false;
  }
  return true;
}

void Scheduler::preempt(Request& victim, const Request& needy, Schedule& out) {
  unschedule(victim, out);
  std::erase(running_, &victim);
  out.preempted.push_back({victim.id, needy.id, PreemptReason::kOutOfBlocks,
                           static_cast<int>(blocks_.table(victim.id).size()),
                           victim.num_computed_tokens});
  victim.spec_token_ids.clear();
  victim.num_computed_tokens = 0;
  blocks_.free(victim.id);
  victim.status = RequestStatus::kPreempted;
  ++victim.num_preemptions;
  waiting_.push_front(&victim);
}

// Takes back what this step planned for `victim`, if anything.
void Scheduler::unschedule(const Request& victim, Schedule& out) {
  const auto entry = std::ranges::find(out.entries, &victim, &ScheduledEntry::request);
  if (entry == out.entries.end()) return;
  out.budget_left += entry->work.num_tokens;
  out.entries.erase(entry);
  blocks_.withdraw_published(victim.id);
}

void Scheduler::place(Request& request, int num_tokens, Schedule& out) {
  ScheduledEntry entry;
  entry.request = &request;
  entry.work = {request.id, num_tokens, work_kind(request), request.num_computed_tokens, 0};
  out.entries.push_back(entry);
  out.budget_left -= num_tokens;
  blocks_.publish(request, request.num_computed_tokens + num_tokens);
}

// Blocks the running requests will still take for the input they already have.
int Scheduler::blocks_promised() const {
  int promised = 0;
  for (const Request* request : running_)
    promised += blocks_.blocks_needed(*request, request->num_tokens(), {});
  return promised;
}

Scheduler::Admission Scheduler::plan_admission(Request& request, int promised) const {
  Admission admission;
  admission.adopted = blocks_.find_cached_prefix(request);
  admission.remaining =
      request.num_tokens() - static_cast<int>(admission.adopted.size()) * blocks_.block_size();
  const int needed = blocks_.blocks_needed(request, request.num_tokens(), admission.adopted);
  admission.shortfall = std::max(0, needed - (blocks_.num_free() - promised));
  return admission;
}

void Scheduler::admit_waiting(Schedule& out) {
  if (!out.preempted.empty()) return;
  int promised = blocks_promised();
  while (!waiting_.empty() && out.budget_left > 0 &&
         static_cast<int>(running_.size()) < config_.max_num_seqs) {
    Request& request = *waiting_.front();
    const Admission admission = plan_admission(request, promised);
    if (admission.shortfall > 0) break;
    if (!config_.enable_chunked_prefill && admission.remaining > out.budget_left) break;
    admit(request, admission, chunk(admission.remaining, out.budget_left), out);
    promised += blocks_.blocks_needed(request, request.num_tokens(), {});
  }
}

void Scheduler::admit(Request& request, const Admission& admission, int num_tokens, Schedule& out) {
  const bool allocated = blocks_.allocate_slots(request, num_tokens, admission.adopted);
  QUIRE_CHECK(allocated, index(request.id), num_tokens, blocks_.num_free());
  waiting_.pop_front();
  running_.push_back(&request);
  const RequestStatus before = request.status;
  const int num_cached = static_cast<int>(admission.adopted.size()) * blocks_.block_size();
  request.status = RequestStatus::kRunning;
  request.num_computed_tokens = num_cached;
  if (before == RequestStatus::kWaiting) request.num_cached_tokens = num_cached;
  place(request, num_tokens, out);
  ScheduledEntry& entry = out.entries.back();
  entry.work.num_cached_tokens = num_cached;
  entry.admitted = true;
  entry.status_before = before;
}

void Scheduler::commit(const Schedule& schedule) {
  for (const ScheduledEntry& entry : schedule.entries)
    entry.request->num_computed_tokens += entry.work.num_tokens;
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
    request.num_computed_tokens = 0;
    request.status = entry->status_before;
    if (request.status == RequestStatus::kWaiting) request.num_cached_tokens = 0;
    std::erase(running_, &request);
    waiting_.push_front(&request);
  }
}

void Scheduler::release(Request& request) {
  if (request.status == RequestStatus::kRunning)
    std::erase(running_, &request);
  else
    std::erase(waiting_, &request);
  blocks_.free(request.id);
}

WaitState Scheduler::wait_state(std::size_t position) const {
  Request& request = *waiting_[position];
  if (position > 0) return {request.id, WaitReason::kBehind, static_cast<int>(position)};
  const int over = static_cast<int>(running_.size()) - config_.max_num_seqs;
  if (over >= 0) return {request.id, WaitReason::kSeqs, over + 1};
  const Admission admission = plan_admission(request, blocks_promised());
  if (admission.shortfall > 0) return {request.id, WaitReason::kBlocks, admission.shortfall};
  if (last_preempted_) return {request.id, WaitReason::kPreemption, 0};
  const int wanted = config_.enable_chunked_prefill ? 1 : admission.remaining;
  if (last_budget_left_ < wanted)
    return {request.id, WaitReason::kTokenBudget, wanted - last_budget_left_};
  return {request.id, WaitReason::kNone, 0};
}

void Scheduler::check_integrity() const {
  for (const Request* request : running_) {
    const auto table = blocks_.table(request->id);
    QUIRE_CHECK(request->status == RequestStatus::kRunning, index(request->id));
    QUIRE_CHECK(request->num_computed_tokens < request->num_tokens(), index(request->id));
    QUIRE_CHECK(static_cast<int>(table.size()) == blocks_.blocks_for(request->num_computed_tokens),
                index(request->id), table.size(), request->num_computed_tokens);
  }
  for (const Request* request : waiting_) {
    QUIRE_CHECK(
        request->status == RequestStatus::kWaiting || request->status == RequestStatus::kPreempted,
        index(request->id));
    QUIRE_CHECK(request->num_computed_tokens == 0, index(request->id));
    QUIRE_CHECK(blocks_.table(request->id).empty(), index(request->id));
  }
}

}  // namespace quire
