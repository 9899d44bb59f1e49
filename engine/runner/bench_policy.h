#pragma once

#include <string>
#include <vector>

#include "engine/runner/serving_workload.h"

namespace quire {

struct PolicyBenchOptions {
  WorkloadOptions workload;
  MachineCosts costs;
  EngineConfig config;
};

struct PolicyBenchLine {
  std::string policy;  // "fcfs", "lpm", "lpm without bound"
  ServingReport report;
  int overtaken_max = 0;  // most admissions that passed one request
};

// `quire bench policy`: one workload under arrival order, under longest cached prefix first, and
// under that without its aging bound: what it gains in hits, and who waits for it. On costs.
Result<std::vector<PolicyBenchLine>> run_policy_bench(const PolicyBenchOptions& options);

}  // namespace quire
