#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/result.h"

namespace quire {

struct AdmissionBenchOptions {
  int prompt_tokens = 7168;  // of the request admitted beside the streams
  int streams = 4;
  int stream_prompt = 32;
  int quiet_steps = 32;  // decoded before it is admitted
  int alone = 2048, contended = 512;
  int rounds = 3;
};

// One arm in one round. Milliseconds; 0 = this arm does not measure it.
struct AdmissionBenchLine {
  // "chunk 2048", "chunk 512" (only beside the streams), "policy", "target", and once more, to see
  // what the machine does by itself, "null 512" and "null 2048" (only alone).
  std::string arm;
  int round = 0;
  double max_itl_ms = 0;  // of the target arm: what the chunk 512 arm of this round had as its p95
  double itl_p95_quiet = 0;
  double itl_p95_admission = 0, itl_mean_admission = 0;
  double ttft = 0;        // of the admitted request
  double ttft_alone = 0;  // of the same prompt with nobody else there
};

// `quire bench admission`: streams decode, then one long prompt is admitted. Every arm runs in
// every round, one after another on the same runner, so that a drifting machine touches all alike.
// `done` gets every line as it is measured.
Status run_admission_bench(FlatModel& model, const AdmissionBenchOptions& options,
                           const std::function<void(const AdmissionBenchLine&)>& done);

}  // namespace quire
