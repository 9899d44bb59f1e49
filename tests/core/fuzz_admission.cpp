#include <algorithm>
#include <tuple>

#include "tests/core/fuzz_step.h"

// Who gives way and who is admitted.
namespace quire::test {

// The blocks of `preemption.victim` are about to be given back.
void StepCheck::preempt(const Preemption& preemption) {
  ModelRequest* found = model_.find(preemption.victim);
  require(found != nullptr && !found->waits(), "a victim was running", index(preemption.victim));
  ModelRequest& victim = *found;
  check_victim(victim, preemption);
  const bool swapped = swaps(victim);
  const int host_blocks = swapped ? model_.pool.blocks_for(victim.computed) : 0;
  require(preemption.blocks_released == static_cast<int>(victim.table.size()) &&
              preemption.blocks_swapped == host_blocks &&
              preemption.tokens_lost == (swapped ? 0 : victim.computed),
          "a preemption is told as it was", index(victim.id), preemption.blocks_swapped,
          host_blocks, preemption.tokens_lost);
  take_swap_outs(victim, host_blocks);
  std::erase(model_.running, victim.id);
  victim.drafts.clear();
  victim.peak = std::max(victim.peak, victim.computed);
  victim.status = swapped ? RequestStatus::kSwapped : RequestStatus::kPreempted;
  ++victim.preemptions;
  ++model_.totals.preemptions;
  if (swapped) {
    ++model_.totals.swap_preemptions;
    ++model_.tallies[Tally::kSwapPreemptions];
  } else {
    ++model_.tallies[Tally::kRecomputePreemptions];
    // What it has published so far may still end in the cache; its own count begins anew.
    victim.computed = 0;
    victim.outdated = false;
  }
  if (preemption.reason != PreemptReason::kPriority) return;
  ++victim.displaced;
  ++model_.totals.displacements;
  ++model_.tallies[Tally::kDisplacements];
}

bool StepCheck::swaps(const ModelRequest& victim) const {
  const int blocks = model_.pool.blocks_for(victim.computed);
  const DecisionInputs& inputs = record_.inputs;
  const double back_and_forth = 2 * blocks * inputs.swap_us_per_block;
  const bool known = inputs.swap_us_per_block > 0 && inputs.recompute_us_per_token > 0;
  const PreemptionMode mode = model_.config.preemption_mode;
  if (mode == PreemptionMode::kRecompute || blocks > model_.num_host_free()) return false;
  return mode == PreemptionMode::kSwap ||
         (known && back_and_forth < victim.computed * inputs.recompute_us_per_token);
}

void StepCheck::check_victim(const ModelRequest& victim, const Preemption& preemption) {
  if (preemption.reason == PreemptReason::kPriority) return check_displaced(victim, preemption);
  const ModelRequest* needy = model_.find(preemption.for_request);
  require(needy != nullptr && !needy->waits(), "only a running request takes another's blocks",
          index(preemption.for_request));
  const ModelRequest* expected = expected_victim();
  require(expected == &victim, "the victim is the policy's", index(victim.id), index(expected->id));
}

// Of the lowest priority; among those the last, or the one that loses least per block gained.
const ModelRequest* StepCheck::expected_victim() const {
  const bool ranked = model_.config.policy == SchedulingPolicy::kPriority;
  const bool by_cost = model_.config.victim == VictimChoice::kCheapest;
  const ModelRequest* chosen = nullptr;
  std::tuple<int, double> best;
  for (const RequestId id : model_.running) {
    const ModelRequest& request = model_.requests.at(id);
    const int gain = by_cost ? model_.pool.num_private(request) : 1;
    const double cost = !by_cost ? 0 : gain == 0 ? 1e9 : 1.0 * request.computed / gain;
    const std::tuple<int, double> rank{ranked ? -request.priority : 0, cost};
    if (chosen != nullptr && rank > best) continue;
    chosen = &request;
    best = rank;
  }
  return chosen;
}

void StepCheck::check_displaced(const ModelRequest& victim, const Preemption& preemption) const {
  const ModelRequest* displacer = model_.find(preemption.for_request);
  require(model_.config.policy == SchedulingPolicy::kPriority && displacer != nullptr &&
              displacer->waits(),
          "only priority displaces, for a waiting request", index(victim.id));
  const auto displaceable = [&](const ModelRequest& request) {
    return request.priority > displacer->priority &&
           request.displaced < model_.config.max_displacements;
  };
  require(displaceable(victim), "the displaced one is of strictly lower priority, within the bound",
          index(victim.id), victim.priority, displacer->priority, victim.displaced);
  for (const RequestId id : model_.running) {
    const ModelRequest& other = model_.requests.at(id);
    require(!displaceable(other) || is_victim(id) || other.priority <= victim.priority,
            "the lowest priority is displaced first", index(victim.id), index(id));
  }
  require(work_of(displacer->id) != nullptr, "a displacing request takes the place it made",
          index(displacer->id));
}

void StepCheck::take_swap_outs(ModelRequest& victim, int blocks) {
  const int size = model_.config.block_size;
  for (int i = 0; i < blocks; ++i) {
    require(next_move_ < record_.moves.size(), "every swapped block is moved", index(victim.id), i);
    const BlockMove& move = record_.moves[next_move_++];
    require(move.kind == MoveKind::kSwapOut && move.request == victim.id &&
                move.source == index(victim.table[i]) &&
                move.num_tokens == std::min(size, victim.computed - i * size),
            "a block is moved to the host whole and in order", index(victim.id), i, move.source);
    require(move.target >= 0 && move.target < model_.config.num_swap_blocks &&
                model_.host_used.insert(move.target).second,
            "a host block holds one block", move.target);
    victim.host.push_back(move.target);
  }
  model_.totals.blocks_swapped_out += blocks;
}

// `work.request` is about to get its blocks.
void StepCheck::admit(const ScheduledWork& work) {
  ModelRequest& request = *model_.find(work.request);
  require(record_.preempted.empty() ||
              (record_.preempted.front().reason == PreemptReason::kPriority &&
               record_.preempted.front().for_request == request.id && admissions_.empty()),
          "a step that preempted admits only the displacing request", index(request.id));
  require(model_.may_be_next(request), "only the next in line is admitted", index(request.id));
  require(static_cast<int>(model_.running.size()) < model_.config.max_num_seqs,
          "no more than max_num_seqs run", model_.running.size());
  const ModelAdmission plan = model_.admission(request);
  require(plan.shortfall == 0, "whoever is admitted fits whole", index(request.id), plan.shortfall);
  const bool swapped = request.status == RequestStatus::kSwapped;
  const int computed = work.num_computed_tokens;
  require(plan.least_computed <= computed && computed <= plan.most_computed,
          "an admission begins behind the longest cached prefix", index(request.id), computed,
          plan.most_computed);
  require(work.num_cached_tokens == (swapped ? 0 : computed), "cached tokens are counted",
          index(request.id), work.num_cached_tokens);
  const int left = request.num_tokens() - computed;
  const bool decodes = request.num_output() > 0 && left == 1;
  const int fair = std::min({left, budget_left_, prefill_left_, model_.request_limit()});
  require(work.num_tokens == (decodes ? 1 : fair), "an admission gets what the limits leave",
          index(request.id), work.num_tokens, fair);
  const bool partial = work.num_tokens < left;
  const int cap = model_.config.max_num_partial_prefills;
  require(!partial || model_.config.enable_chunked_prefill, "without chunking nothing is split");
  require(!partial || cap == 0 || num_partial() < cap, "few enough are mid-prompt", num_partial());
  const bool expected_decode = work.kind == WorkKind::kDecode;
  require(expected_decode == decodes &&
              (work.kind == WorkKind::kRecompute) == (!decodes && request.preemptions > 0),
          "an admission's work is of its kind", index(request.id), static_cast<int>(work.kind));
  overtake(request);
  take_moves(request, plan, computed);
  admitted_[request.id] = {request.status, request.computed};
  admissions_.push_back(request.id);
  request.status = RequestStatus::kRunning;
  request.computed = computed;
  model_.running.push_back(request.id);
  place(work);
}

void StepCheck::overtake(const ModelRequest& request) {
  for (ModelRequest* other : model_.waiting()) {
    if (other == &request) break;
    require(!model_.aged(*other), "nobody is overtaken beyond the bound", index(other->id));
    ++other->overtaken;
    overtaken_by_[request.id].push_back(other->id);
    ++model_.tallies[Tally::kOvertakes];
  }
}

// The moves that bring an admission's contents, to be compared with its table once it is known.
void StepCheck::take_moves(const ModelRequest& request, const ModelAdmission& plan, int computed) {
  const std::size_t whole = plan.match.blocks.size();
  const auto mine = [&](MoveKind kind) {
    return next_move_ < record_.moves.size() && record_.moves[next_move_].kind == kind &&
           record_.moves[next_move_].request == request.id;
  };
  if (mine(MoveKind::kCopy)) {
    const BlockMove& move = record_.moves[next_move_++];
    const ModelBlock& source = model_.pool.at(BlockId{move.source});
    const auto begin =
        request.tokens.begin() + static_cast<std::ptrdiff_t>(whole) * model_.config.block_size;
    require(source.hashed && !source.fresh && move.num_tokens > 0 &&
                move.num_tokens <= static_cast<int>(source.run.size()) &&
                std::equal(begin, begin + move.num_tokens, source.run.begin()),
            "a partial copy takes computed tokens of the same prefix", index(request.id),
            move.source, move.num_tokens);
    require(static_cast<int>(whole) * model_.config.block_size + move.num_tokens == computed,
            "a partial copy ends where computing begins", index(request.id), move.num_tokens);
    moves_in_.emplace_back(move, whole);
  }
  const int size = model_.config.block_size;
  for (std::size_t i = whole; i < request.host.size(); ++i) {
    require(mine(MoveKind::kSwapIn), "what is in the host comes back", index(request.id), i);
    const BlockMove& move = record_.moves[next_move_++];
    require(move.source == request.host[i] &&
                move.num_tokens == std::min(size, computed - static_cast<int>(i) * size),
            "a block comes from the host block that holds it", index(request.id), i, move.source);
    moves_in_.emplace_back(move, i);
    ++model_.totals.blocks_swapped_in;
  }
}

void StepCheck::check_moves() const {
  require(next_move_ == record_.moves.size(), "every move has a cause", next_move_);
  for (const auto& [move, position] : moves_in_)
    require(move.target == index(model_.requests.at(move.request).table.at(position)),
            "contents go to the block of their place", index(move.request), position, move.target);
}

// Nobody waits whom nothing holds. Says nothing where it is open who is next, or how much of a
// prefix it would find.
void StepCheck::check_nobody_left_out() {
  if (!record_.preempted.empty() || budget_left_ == 0 || record_.scheduled.empty()) return;
  if (static_cast<int>(model_.running.size()) >= model_.config.max_num_seqs) return;
  std::vector<ModelRequest*> next = model_.waiting();
  std::erase_if(next, [&](ModelRequest* request) { return !model_.may_be_next(*request); });
  if (next.size() != 1) return;
  const ModelRequest& request = *next.front();
  const ModelAdmission plan = model_.admission(*next.front());
  if (plan.shortfall > 0 || plan.least_computed != plan.most_computed) return;
  const int left = request.num_tokens() - plan.most_computed;
  const bool decodes = request.num_output() > 0 && left == 1;
  const int n = decodes ? 1 : std::min({left, budget_left_, prefill_left_, model_.request_limit()});
  const int cap = model_.config.max_num_partial_prefills;
  const bool splits = model_.config.enable_chunked_prefill && (cap == 0 || num_partial() < cap);
  require(n < 1 || (n < left && !splits), "whoever can be admitted is", index(request.id), n);
}

}  // namespace quire::test
