#include <algorithm>
#include <tuple>

#include "engine/core/mutation.h"
#include "engine/core/scheduler.h"
#include "kernels/check.h"

// The waiting queue: its order, who is admitted, who is displaced for it, and why the rest waits.
namespace quire {
namespace {

bool held_before(const Request& request) {
  return request.status != RequestStatus::kWaiting;
}

NearMiss near_miss(const Request& request, const PrefixMatch& match) {
  return {request.id, match.differs_at, request.token_ids[match.differs_at], match.cached_token};
}

}  // namespace

// The queue's base order. Ids grow with arrival.
bool Scheduler::ahead(const Request& a, const Request& b) const {
  const bool ranked = config_.policy == SchedulingPolicy::kPriority;
  return std::tuple(ranked ? a.priority : 0, !held_before(a), a.id) <
         std::tuple(ranked ? b.priority : 0, !held_before(b), b.id);
}

void Scheduler::enqueue(Request& request) {
  const auto place = std::ranges::upper_bound(
      waiting_, &request, [this](const Request* a, const Request* b) { return ahead(*a, *b); });
  waiting_.insert(place, &request);
}

void Scheduler::reorder() {
  std::ranges::sort(waiting_, [this](const Request* a, const Request* b) { return ahead(*a, *b); });
}

bool Scheduler::aged(const Request& request) const {
  return request.num_overtaken >= config_.lpm_max_overtakes && !mutated(Mutation::kAgingIgnored);
}

// The one to try next; only when the queue is not empty.
std::size_t Scheduler::next_waiting() const {
  if (config_.policy != SchedulingPolicy::kLpm || held_before(*waiting_.front())) return 0;
  const std::size_t window = std::min<std::size_t>(waiting_.size(), kLpmWindow);
  std::size_t best = 0;
  int longest = -1;
  for (std::size_t i = 0; i < window; ++i) {
    Request& request = *waiting_[i];
    if (aged(request)) return i;
    const PrefixMatch match = blocks_.find_cached_prefix(request, request.num_tokens() - 1);
    const int cached =
        static_cast<int>(match.blocks.size()) * blocks_.block_size() + match.partial_tokens;
    if (cached <= longest) continue;
    longest = cached;
    best = i;
  }
  return best;
}

// Blocks the running requests will still take for the input they already have.
int Scheduler::blocks_promised() const {
  int promised = 0;
  if (mutated(Mutation::kPromisedBlocksIgnored)) return promised;
  for (const Request* request : running_) {
    const int num_tokens = request->num_tokens();
    // It holds at least what it computed takes; saves looking up most tables.
    if (blocks_.blocks_for(num_tokens) > blocks_.blocks_for(request->num_computed_tokens))
      promised += blocks_.blocks_needed(*request, num_tokens, {});
  }
  return promised;
}

Scheduler::Admission Scheduler::plan_admission(Request& request, int promised) const {
  Admission admission;
  const int size = blocks_.block_size();
  if (request.status == RequestStatus::kSwapped) {
    // Whole blocks still in the pool need not come from the host.
    admission.adopted =
        blocks_.find_cached_prefix(request, request.num_computed_tokens / size * size);
    admission.adopted.partial = kNoBlock;
    admission.adopted.partial_tokens = 0;
    admission.num_computed = request.num_computed_tokens;
  } else {
    const int left = mutated(Mutation::kNoTokenLeft) ? 0 : 1;
    admission.adopted = blocks_.find_cached_prefix(request, request.num_tokens() - left);
    admission.num_computed =
        static_cast<int>(admission.adopted.blocks.size()) * size + admission.adopted.partial_tokens;
  }
  const int needed = blocks_.blocks_needed(request, request.num_tokens(), admission.adopted.blocks);
  admission.shortfall = std::max(0, needed - (blocks_.num_free() - promised));
  return admission;
}

// Running requests that this step leaves in the middle of their input.
int Scheduler::num_partial_prefills(const Schedule& out) const {
  int partial = 0;
  if (config_.max_num_partial_prefills == 0) return partial;  // nobody asks
  for (const Request* request : running_) {
    if (request->decoding()) continue;
    const auto entry = std::ranges::find(out.entries, request, &ScheduledEntry::request);
    const int planned = entry == out.entries.end() ? 0 : entry->work.num_tokens;
    if (request->num_computed_tokens + planned < request->num_tokens()) ++partial;
  }
  return partial;
}

// Tokens that `request` gets in this step behind the `num_computed` it brings, with `num_partial`
// requests mid-prompt; 0: the limits do not admit it.
int Scheduler::admission_tokens(const Request& request, int num_computed, int num_partial,
                                const Schedule& out) const {
  const int remaining = request.num_tokens() - num_computed;
  const bool decodes = request.num_output_tokens() > 0 && remaining == 1;
  const int n = decodes ? std::min(1, out.budget_left) : prefill_chunk(remaining, out);
  if (n == remaining) return n;
  const int most_partial = config_.max_num_partial_prefills;
  const bool splits =
      config_.enable_chunked_prefill && (most_partial == 0 || num_partial < most_partial);
  return splits ? n : 0;
}

void Scheduler::admit_waiting(Schedule& out) {
  if (!out.preempted.empty() && !mutated(Mutation::kAdmitsBesidePreemption)) return;
  int promised = waiting_.empty() ? 0 : blocks_promised();
  while (!waiting_.empty() && out.budget_left > 0) {
    const bool seats_full = static_cast<int>(running_.size()) >= config_.max_num_seqs;
    if (seats_full && config_.policy != SchedulingPolicy::kPriority) break;
    const std::size_t position = next_waiting();
    Request& request = *waiting_[position];
    if (seats_full && displaceable(request).empty()) break;
    Admission admission = plan_admission(request, promised);
    if (seats_full || admission.shortfall > 0) {
      if (!displace_for(request, admission, promised, out)) break;
      promised = blocks_promised();
      admission = plan_admission(request, promised);
      QUIRE_CHECK(admission.shortfall == 0, index(request.id), admission.shortfall);
    }
    const int n = admission_tokens(request, admission.num_computed, num_partial_prefills(out), out);
    if (n < request.num_tokens() - admission.num_computed) out.prefill_waiting = true;
    if (n == 0) break;
    admit(static_cast<std::size_t>(std::ranges::find(waiting_, &request) - waiting_.begin()),
          admission, n, out);
    promised += blocks_.blocks_needed(request, request.num_tokens(), {});
    if (!out.preempted.empty())
      break;  // only the displacing request takes the displaced one's place
  }
}

// Running requests of lower priority than `request` that may be displaced, the first to go first.
std::vector<Request*> Scheduler::displaceable(const Request& request) const {
  std::vector<Request*> victims;
  for (auto it = running_.rbegin(); it != running_.rend(); ++it) {
    Request* other = *it;
    const bool lower = other->priority > request.priority ||
                       (mutated(Mutation::kDisplacesEquals) && other->priority == request.priority);
    if (lower && other->num_displaced < config_.max_displacements &&
        !blocks_.fresh_blocks_shared(other->id))
      victims.push_back(other);
  }
  std::ranges::stable_sort(victims, std::greater<>(), &Request::priority);
  if (config_.victim != VictimChoice::kCheapest) return victims;
  for (auto group = victims.begin(); group != victims.end();) {
    const auto end = std::find_if(group, victims.end(), [&](const Request* other) {
      return other->priority != (*group)->priority;
    });
    for (; group != end; ++group) {
      std::vector<Request*> admitted_order(group, end);
      std::ranges::reverse(admitted_order);
      const auto chosen = std::find(group, end, cheapest_victim(admitted_order, blocks_));
      std::rotate(group, chosen, chosen + 1);
    }
  }
  return victims;
}

// Leaves out what was published in this step.
void Scheduler::drop_fresh(Admission& admission) const {
  auto& blocks = admission.adopted.blocks;
  const auto first =
      std::ranges::find_if(blocks, [&](BlockId block) { return blocks_.is_fresh(block); });
  if (first == blocks.end()) return;
  blocks.erase(first, blocks.end());
  admission.num_computed =
      std::min(admission.num_computed, static_cast<int>(blocks.size()) * blocks_.block_size());
}

// Preempts as few requests of lower priority as let `request` be admitted as planned; none if that
// is not enough, or if this step admitted somebody already. Counts on nothing published in this
// step, which would be withdrawn with its publisher.
bool Scheduler::displace_for(Request& request, Admission admission, int promised, Schedule& out) {
  if (config_.policy != SchedulingPolicy::kPriority) return false;
  if (std::ranges::any_of(out.entries, &ScheduledEntry::admitted)) return false;
  drop_fresh(admission);
  std::vector<BlockId> adopted = admission.adopted.blocks;
  std::ranges::sort(adopted);
  int seats = static_cast<int>(running_.size()) + 1 - config_.max_num_seqs;
  const int needed = blocks_.blocks_needed(request, request.num_tokens(), admission.adopted.blocks);
  int blocks = needed - (blocks_.num_free() - promised);
  std::vector<Request*> victims;
  for (Request* victim : displaceable(request)) {
    if (seats <= 0 && blocks <= 0) break;
    victims.push_back(victim);
    --seats;
    blocks -= blocks_.blocks_needed(*victim, victim->num_tokens(), {});
    blocks -= blocks_.num_private_blocks(victim->id, adopted);
  }
  if (seats > 0 || blocks > 0) return false;
  Schedule without = out;
  int num_partial = 0;
  for (const Request* victim : victims) {
    take_back(*victim, without);
    if (!victim->decoding()) --num_partial;
  }
  num_partial += num_partial_prefills(without);
  if (admission_tokens(request, admission.num_computed, num_partial, without) == 0) return false;
  for (Request* victim : victims) preempt(*victim, request, PreemptReason::kPriority, out);
  return true;
}

void Scheduler::admit(std::size_t position, const Admission& admission, int num_tokens,
                      Schedule& out) {
  Request& request = *waiting_[position];
  const PrefixMatch& adopted = admission.adopted;
  const bool allocated =
      blocks_.allocate_slots(request, admission.num_computed + num_tokens, adopted);
  QUIRE_CHECK(allocated, index(request.id), num_tokens, blocks_.num_free());
  for (std::size_t i = 0; i < position; ++i) ++waiting_[i]->num_overtaken;
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(position));
  running_.push_back(&request);
  bring_contents(request, adopted, out);

  const RequestStatus before = request.status;
  const int computed_before = request.num_computed_tokens;
  const bool swapped = before == RequestStatus::kSwapped;
  const int num_cached = swapped ? 0 : admission.num_computed;
  request.status = RequestStatus::kRunning;
  request.num_computed_tokens = admission.num_computed;
  if (before == RequestStatus::kWaiting) request.num_cached_tokens = num_cached;
  if (adopted.differs_at >= 0 && !swapped) out.near_misses.push_back(near_miss(request, adopted));
  place(request, num_tokens, out);
  ScheduledEntry& entry = out.entries.back();
  entry.work.num_cached_tokens = num_cached;
  out.tokens.cached += num_cached;
  entry.admitted = true;
  entry.status_before = before;
  entry.num_computed_before = computed_before;
  entry.overtook = position > 0;
  entry.partial_copy = adopted.partial != kNoBlock;
}

// Plans the moves that fill the blocks of its table that are neither adopted nor computed in this
// step: from the block it matched in part, or from the host.
void Scheduler::bring_contents(Request& request, const PrefixMatch& adopted, Schedule& out) {
  const auto table = blocks_.table(request.id);
  if (adopted.partial != kNoBlock && adopted.partial != table[adopted.blocks.size()])
    out.moves.push_back({MoveKind::kCopy, index(adopted.partial),
                         index(table[adopted.blocks.size()]), adopted.partial_tokens, request.id});
  if (request.status != RequestStatus::kSwapped) return;
  const auto host = swap_.table(request.id);
  const int size = blocks_.block_size();
  for (std::size_t i = adopted.blocks.size(); i < host.size(); ++i)
    out.moves.push_back(
        {MoveKind::kSwapIn, host[i], index(table[mutated(Mutation::kWrongSwapTarget) ? 0 : i]),
         std::min(size, request.num_computed_tokens - static_cast<int>(i) * size), request.id});
}

WaitState Scheduler::head_state(Request& request) const {
  const int over = static_cast<int>(running_.size()) - config_.max_num_seqs;
  if (over >= 0) return {request.id, WaitReason::kSeqs, over + 1};
  const Admission admission = plan_admission(request, blocks_promised());
  if (admission.shortfall > 0) {
    const bool swapped = request.status == RequestStatus::kSwapped;
    return {request.id, swapped ? WaitReason::kSwapped : WaitReason::kBlocks, admission.shortfall};
  }
  if (last_preempted_) return {request.id, WaitReason::kPreemption, 0};
  const int remaining = request.num_tokens() - admission.num_computed;
  const int wanted = config_.enable_chunked_prefill ? 1 : remaining;
  const bool decodes = request.num_output_tokens() > 0 && remaining == 1;
  const int left = decodes ? last_budget_left_ : std::min(last_budget_left_, last_prefill_left_);
  if (left < wanted) return {request.id, WaitReason::kTokenBudget, wanted - left};
  if (config_.max_num_partial_prefills > 0 && remaining > left) {
    const int above = last_partial_prefills_ - config_.max_num_partial_prefills;
    if (above >= 0) return {request.id, WaitReason::kPartialPrefills, above + 1};
  }
  return {request.id, WaitReason::kNone, 0};
}

std::vector<WaitState> Scheduler::wait_states() const {
  std::vector<WaitState> states;
  if (waiting_.empty()) return states;
  const std::size_t head = next_waiting();
  const bool aging = config_.policy == SchedulingPolicy::kLpm && head < waiting_.size() &&
                     !held_before(*waiting_[head]) && aged(*waiting_[head]);
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (i == head)
      states.push_back(head_state(*waiting_[i]));
    else
      states.push_back({waiting_[i]->id, aging ? WaitReason::kAging : WaitReason::kBehind,
                        static_cast<int>(i < head ? i + 1 : i)});
  }
  return states;
}

WaitState Scheduler::wait_state(const Request& request) const {
  for (const WaitState& state : wait_states())
    if (state.request == request.id) return state;
  return {request.id, WaitReason::kNone, 0};
}

}  // namespace quire
