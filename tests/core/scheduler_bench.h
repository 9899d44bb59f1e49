#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/core/scheduler.h"
#include "tests/core/harness.h"

namespace quire::test {

// A scheduler and its requests, without an engine: every committed step appends `next` to the
// requests whose input was finished.
class Bench {
 public:
  explicit Bench(EngineConfig wanted)
      : config(wanted),
        blocks(wanted.num_blocks, wanted.block_size,
               wanted.enable_prefix_caching
                   ? make_prefix_index(wanted.prefix_index, wanted.num_blocks, wanted.block_size)
                   : nullptr),
        swap(wanted.num_swap_blocks),
        scheduler(config, blocks, swap) {}

  Request& add(std::int64_t id, int prompt_length, int first = 3, int priority = 0) {
    return add(id, prompt_of(prompt_length, first), priority);
  }
  Request& add(std::int64_t id, std::vector<TokenId> prompt, int priority = 0) {
    requests.push_back(std::make_unique<Request>(id_of(id), std::move(prompt), SamplingParams{}));
    requests.back()->priority = priority;
    scheduler.add(*requests.back());
    return *requests.back();
  }

  std::string text(const Schedule& schedule) const {
    StepRecord record;
    record.preempted = schedule.preempted;
    for (const ScheduledEntry& entry : schedule.entries) {
      record.scheduled.push_back(entry.work);
      if (entry.admitted) record.admitted.push_back(entry.request->id);
    }
    return plan_text(record);
  }

  std::string step(TokenId next = 1, const DecisionInputs& inputs = {}) {
    last = scheduler.schedule(inputs);
    const Schedule& schedule = last;
    scheduler.commit(schedule);
    for (const ScheduledEntry& entry : schedule.entries)
      if (entry.request->num_computed_tokens == entry.request->num_tokens())
        entry.request->token_ids.push_back(next);
    check();
    return text(schedule);
  }

  std::string rolled_back_step() {
    const Schedule schedule = scheduler.schedule();
    scheduler.rollback(schedule);
    check();
    return text(schedule);
  }

  void finish(Request& request) {
    scheduler.release(request);
    request.status = RequestStatus::kFinished;
    check();
  }

  void check() const {
    blocks.check_integrity();
    scheduler.check_integrity();
  }

  std::string wait(std::size_t position) const {
    static const char* const kNames[] = {"none",   "blocks", "budget",  "seqs",    "preemption",
                                         "behind", "aging",  "swapped", "partials"};
    const WaitState state = scheduler.wait_states()[position];
    return std::string(kNames[static_cast<int>(state.reason)]) + " " +
           std::to_string(state.shortfall);
  }

  EngineConfig config;
  BlockManager blocks;
  SwapPool swap;
  Scheduler scheduler;
  std::vector<std::unique_ptr<Request>> requests;
  Schedule last;
};

inline EngineConfig config_of(int num_blocks, int budget, int block_size = 4) {
  EngineConfig config = small_config(num_blocks, block_size);
  config.max_num_batched_tokens = budget;
  return config;
}

}  // namespace quire::test
