#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/core/step_record.h"
#include "engine/model/model.h"
#include "engine/result.h"
#include "engine/text/tokenizer.h"

namespace quire {

struct OverheadBenchOptions {
  std::vector<int> parallel{1, 64};  // streams that decode together
  int prompt_tokens = 64;            // of each stream
  int steps = 64;                    // decode steps measured, of each kind of sampling
};

// What a step's time went to, in microseconds. Their sum is the time from its begin to the next
// step's, so `publish`, which no record times, is what the other parts leave: the record's readers,
// the listeners' updates and the commands that came in.
struct StepCost {
  double schedule = 0, prepare = 0, forward = 0, sample = 0, update = 0, publish = 0;
  double total() const { return schedule + prepare + forward + sample + update + publish; }
  double overhead() const { return 1 - forward / total(); }  // the share outside the forward pass
};

// Of the steps in which exactly `streams` requests decode and nothing else happens, and after which
// another such step follows at once.
std::vector<StepCost> decode_step_costs(
    const std::vector<std::shared_ptr<const StepRecord>>& records, int streams);

struct OverheadBenchLine {
  int streams = 0;
  bool sampled = false;  // temperature 0.8, top_p 0.95, top_k 40; otherwise greedy
  int steps = 0;
  // Medians, each over the steps by itself.
  StepCost cost;
  double step_us = 0, overhead = 0;
};

// `quire bench overhead`: what the engine adds to the model's forward pass while streams decode, in
// the engine as it serves: its own thread, text output, listeners. Calls `done` after each line.
Status run_overhead_bench(FlatModel& model, const Tokenizer& tokenizer,
                          const OverheadBenchOptions& options,
                          const std::function<void(const OverheadBenchLine&)>& done);

}  // namespace quire
