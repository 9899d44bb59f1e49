#pragma once

#include <vector>

#include "engine/core/engine_config.h"

namespace quire {

struct SchedulerBenchOptions {
  int steps = 2000;  // measured, after the pool and the queues have filled
  int num_running = 256, num_waiting = 1000, num_blocks = 65'536;
  // Prompts begin with one of 32 shared prefixes of 1,024 tokens.
  int prompt_tokens = 4700;  // +- 10 %
  int output_tokens = 800;   // +- 50 %
  int num_batched_tokens = 2048;
  bool cpu_time = false;  // measure processor time of the thread instead of wall time
};

// What it takes to decide a step, in microseconds: StepTimes::schedule_us with a reader attached.
struct SchedulerBenchLine {
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  int steps = 0;
  double schedule_p50_us = 0, schedule_p99_us = 0, schedule_mean_us = 0, schedule_max_us = 0;
  // What the steps were made of, per step:
  double running = 0, waiting = 0, decodes = 0, admissions = 0, finishes = 0, preemptions = 0,
         cached_tokens = 0;
};

// `quire bench scheduler`: a full server of long contexts, no model. Every step decodes; requests
// end and others are admitted, with a lookup each; the pool is a little too small, so some are
// preempted. One line per policy.
Result<std::vector<SchedulerBenchLine>> run_scheduler_bench(const SchedulerBenchOptions& options);

}  // namespace quire
