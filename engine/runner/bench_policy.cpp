#include "engine/runner/bench_policy.h"

namespace quire {
namespace {

constexpr int kNoBound = 1 << 20;  // more than requests ever wait at once

}  // namespace

Result<std::vector<PolicyBenchLine>> run_policy_bench(const PolicyBenchOptions& options) {
  struct Arm {
    const char* name;
    SchedulingPolicy policy;
    int overtakes;
  };
  const int bound = options.config.lpm_max_overtakes;
  std::vector<PolicyBenchLine> lines;
  for (const Arm& arm :
       {Arm{"fcfs", SchedulingPolicy::kFcfs, bound}, Arm{"lpm", SchedulingPolicy::kLpm, bound},
        Arm{"lpm without bound", SchedulingPolicy::kLpm, kNoBound}}) {
    SimulationOptions simulation;
    simulation.config = options.config;
    simulation.config.policy = arm.policy;
    simulation.config.lpm_max_overtakes = arm.overtakes;
    simulation.costs = options.costs;
    simulation.vocab_size = options.workload.vocab_size;
    QUIRE_TRY(const RequestSource source, make_workload(options.workload));
    QUIRE_TRY(const SimulationResult result, simulate(simulation, source));
    lines.push_back({arm.name, result.report, result.overtaken_max});
  }
  return lines;
}

}  // namespace quire
