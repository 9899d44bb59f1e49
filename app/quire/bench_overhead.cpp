#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"
#include "engine/runner/bench_overhead.h"

namespace quire {
namespace {

struct OverheadFlags {
  BenchModelFlags bench;
  OverheadBenchOptions options;
};

void print_header() {
  fmt::print("{:>8}{:>10}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "streams", "tokens",
             "step us", "schedule", "prepare", "forward", "sample", "update", "publish",
             "overhead");
}

void print_line(const OverheadBenchLine& line) {
  const StepCost& cost = line.cost;
  fmt::print(
      "{:>8}{:>10}{:>12.0f}{:>10.1f}{:>10.1f}{:>10.0f}{:>10.1f}{:>10.1f}{:>10.1f}{:>8.2f} %\n",
      line.streams, line.sampled ? "drawn" : "greedy", line.step_us, cost.schedule, cost.prepare,
      cost.forward, cost.sample, cost.update, cost.publish, 100 * line.overhead);
  std::fflush(stdout);
}

void print_line_json(const OverheadBenchLine& line) {
  const StepCost& cost = line.cost;
  print_json({{"streams", line.streams},
              {"sampling", line.sampled ? "drawn" : "greedy"},
              {"steps", line.steps},
              {"step_us", rounded(line.step_us, 1)},
              {"schedule_us", rounded(cost.schedule, 1)},
              {"prepare_us", rounded(cost.prepare, 1)},
              {"forward_us", rounded(cost.forward, 1)},
              {"sample_us", rounded(cost.sample, 1)},
              {"update_us", rounded(cost.update, 1)},
              {"publish_us", rounded(cost.publish, 1)},
              {"overhead", rounded(line.overhead, 5)}});
}

Status bench_overhead(const BareModel& model, const OverheadFlags& flags) {
  if (!flags.bench.json) print_header();
  return run_overhead_bench(*model.weights.model, *model.weights.tokenizer, flags.options,
                            flags.bench.json ? print_line_json : print_line);
}

}  // namespace

void add_overhead_bench(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<OverheadFlags>();
  OverheadBenchOptions& o = flags->options;
  CLI::App* command = bench.add_subcommand(
      "overhead", "What the engine adds to the forward pass while streams decode, in medians");
  flags->bench.add_to(*command);
  command->add_option("--parallel", o.parallel, "Streams at once; several, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--prompt", o.prompt_tokens, "Prompt tokens of each stream")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--steps", o.steps, "Decode steps measured")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench,
                           [&](const BareModel& model) { return bench_overhead(model, *flags); });
  });
}

}  // namespace quire
