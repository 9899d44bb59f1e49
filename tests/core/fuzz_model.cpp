#include "tests/core/fuzz_model.h"

#include <algorithm>
#include <tuple>

namespace quire::test {

const char* tally_name(Tally tally) {
  static const char* const kNames[] = {"steps",
                                       "preemptions to recompute",
                                       "preemptions by swap",
                                       "displacements",
                                       "evictions",
                                       "partial copies",
                                       "same-step adoptions",
                                       "aborts, waiting",
                                       "aborts, partial prefill",
                                       "aborts, decoding",
                                       "aborts, preempted",
                                       "aborts, swapped out",
                                       "aborts, just finished",
                                       "returns from the host",
                                       "overtakes",
                                       "accepted drafts",
                                       "rejected drafts",
                                       "cancelled steps",
                                       "failed steps",
                                       "cache resets",
                                       "reconfigurations",
                                       "refused requests",
                                       "finished requests"};
  static_assert(std::size(kNames) == kNumTallies);
  return kNames[static_cast<int>(tally)];
}

void Tallies::add(const Tallies& other) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
}

FuzzModel::FuzzModel(const EngineConfig& engine_config)
    : config(engine_config),
      pool(config.num_blocks, config.block_size, config.prefix_index,
           config.enable_prefix_caching) {
  last.budget_left = last.prefill_left = config.max_num_batched_tokens;
}

void FuzzModel::arrive(const Request& request, std::vector<TokenId> answer) {
  ModelRequest& added = requests[request.id];
  added.id = request.id;
  added.tokens = request.token_ids;
  added.answer = std::move(answer);
  added.num_prompt = request.num_prompt_tokens;
  added.max_tokens = request.params.max_tokens;
  added.priority = request.priority;
  added.key = request.cache_key;
  added.salt = request.cache_salt;
}

void FuzzModel::reconfigure(const EngineConfig& wanted) {
  config = wanted;
}

void FuzzModel::reset() {
  for (auto& [id, request] : requests)
    if (request.computed > 0) request.outdated = true;
}

void FuzzModel::end(RequestId id) {
  ModelRequest& request = requests.at(id);
  require(request.table.empty(), "whoever ends gives all blocks back", index(id));
  for (const std::int32_t block : request.host) host_used.erase(block);
  std::erase(running, id);
  waits.erase(id);
  requests.erase(id);
}

ModelRequest* FuzzModel::find(RequestId id) {
  const auto it = requests.find(id);
  return it == requests.end() ? nullptr : &it->second;
}

std::vector<ModelRequest*> FuzzModel::waiting() {
  std::vector<ModelRequest*> queue;
  for (auto& [id, request] : requests)
    if (request.waits()) queue.push_back(&request);
  const bool ranked = config.policy == SchedulingPolicy::kPriority;
  std::ranges::sort(queue, {}, [ranked](const ModelRequest* r) {
    return std::tuple(ranked ? r->priority : 0, r->status == RequestStatus::kWaiting, r->id);
  });
  return queue;
}

int FuzzModel::request_limit() const {
  const bool capped = config.enable_chunked_prefill && config.long_prefill_token_threshold > 0;
  return capped ? std::min(config.max_num_batched_tokens, config.long_prefill_token_threshold)
                : config.max_num_batched_tokens;
}

int FuzzModel::promised() const {
  int blocks = 0;
  for (const RequestId id : running) {
    const ModelRequest& request = requests.at(id);
    blocks +=
        std::max(0, pool.blocks_for(request.num_tokens()) - static_cast<int>(request.table.size()));
  }
  return blocks;
}

ModelAdmission FuzzModel::admission(ModelRequest& request) {
  ModelAdmission plan;
  const int size = config.block_size;
  const bool swapped = request.status == RequestStatus::kSwapped;
  plan.match =
      pool.match(request, swapped ? request.computed / size * size : request.num_tokens() - 1);
  const int whole = static_cast<int>(plan.match.blocks.size());
  plan.least_computed = swapped ? request.computed : whole * size + plan.match.least_partial;
  plan.most_computed = swapped ? request.computed : whole * size + plan.match.most_partial;
  int needed = std::max(0, pool.blocks_for(request.num_tokens()) - whole);
  for (const BlockId block : plan.match.blocks)
    if (pool.at(block).refs == 0) ++needed;
  plan.shortfall = std::max(0, needed - (pool.num_free() - promised()));
  return plan;
}

bool FuzzModel::aged(const ModelRequest& request) const {
  return request.overtaken >= config.lpm_max_overtakes;
}

bool FuzzModel::may_be_next(ModelRequest& request) {
  const std::vector<ModelRequest*> queue = waiting();
  if (config.policy != SchedulingPolicy::kLpm || queue.front()->status != RequestStatus::kWaiting)
    return queue.front() == &request;
  for (ModelRequest* other : queue)
    if (aged(*other)) return other == &request;
  const int most = admission(request).most_computed;
  for (ModelRequest* other : queue) {
    if (other == &request) continue;
    const ModelAdmission plan = admission(*other);
    if (plan.least_computed > most) return false;
    const bool first = other->id < request.id;
    if (first && plan.least_computed == most) return false;
  }
  return true;
}

std::int32_t FuzzModel::num_host_free() const {
  return config.num_swap_blocks - static_cast<std::int32_t>(host_used.size());
}

void FuzzModel::check_wait(const WaitState& state) {
  ModelRequest& request = requests.at(state.request);
  const std::vector<ModelRequest*> queue = waiting();
  const int place =
      static_cast<int>(std::ranges::find(queue, &request) - queue.begin());  // 0 = the front
  const bool aging = state.reason == WaitReason::kAging;
  if (state.reason != WaitReason::kBehind && !aging) {
    require(may_be_next(request), "only the next in line waits for itself", index(state.request));
    return check_head_wait(request, state);
  }
  require(state.shortfall == place || state.shortfall == place + 1, "a place in the queue is true",
          index(state.request), state.shortfall, place);
  require(queue.size() > 1, "whoever waits behind another is not alone");
  const bool some_aged = config.policy == SchedulingPolicy::kLpm &&
                         queue.front()->status == RequestStatus::kWaiting &&
                         std::ranges::any_of(queue, [&](auto* r) { return aged(*r); });
  require(aging == some_aged, "aging is named when it rules", index(state.request));
}

// Checked in the order in which the reasons are looked at: each only holds if those before do not.
void FuzzModel::check_head_wait(ModelRequest& request, const WaitState& state) {
  const auto is = [&](WaitReason reason, int shortfall) {
    require(state.reason == reason && state.shortfall == shortfall, "a wait's reason is true",
            index(request.id), static_cast<int>(state.reason), state.shortfall,
            static_cast<int>(reason), shortfall);
  };
  const int over = static_cast<int>(running.size()) - config.max_num_seqs;
  if (over >= 0) return is(WaitReason::kSeqs, over + 1);
  const ModelAdmission plan = admission(request);
  const bool swapped = request.status == RequestStatus::kSwapped;
  if (plan.shortfall > 0)
    return is(swapped ? WaitReason::kSwapped : WaitReason::kBlocks, plan.shortfall);
  if (!last.known) return;
  if (last.preempted) return is(WaitReason::kPreemption, 0);
  if (plan.least_computed != plan.most_computed) return;
  const int left_over = request.num_tokens() - plan.most_computed;
  const int wanted = config.enable_chunked_prefill ? 1 : left_over;
  const bool decodes = request.num_output() > 0 && left_over == 1;
  const int left = decodes ? last.budget_left : std::min(last.budget_left, last.prefill_left);
  if (left < wanted) return is(WaitReason::kTokenBudget, wanted - left);
  const int above = last.partial_prefills - config.max_num_partial_prefills;
  if (config.max_num_partial_prefills > 0 && left_over > left && above >= 0)
    return is(WaitReason::kPartialPrefills, above + 1);
  is(WaitReason::kNone, 0);
}

}  // namespace quire::test
