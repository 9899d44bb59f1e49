#include "engine/runner/whatif.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"

namespace quire {
namespace {

struct WhatIfFlags {
  std::string file;
  std::vector<std::string> settings;
  bool json = false;
};

void print_json_result(const WhatIfResult& result) {
  nlohmann::ordered_json json = {{"recorded", report_json(result.recorded)},
                                 {"unchanged", report_json(result.unchanged)},
                                 {"changed", report_json(result.changed)},
                                 {"costs", costs_json(result.costs)},
                                 {"fitted_steps", result.steps},
                                 {"error_mean", rounded(result.error_mean, 4)},
                                 {"error_p95", rounded(result.error_p95, 4)},
                                 {"left_out", result.left_out},
                                 {"reconfigurations", result.reconfigurations},
                                 {"refused", result.refused}};
  print_json(json);
}

void print_row(const char* name, const WhatIfResult& r, double ServingReport::*field,
               double factor = 1) {
  fmt::print("{:<20}{:>14.1f}{:>14.1f}{:>14.1f}\n", name, factor * (r.recorded.*field),
             factor * (r.unchanged.*field), factor * (r.changed.*field));
}

void print_count(const char* name, const WhatIfResult& r, std::int64_t EngineCounters::*field) {
  fmt::print("{:<20}{:>14}{:>14}{:>14}\n", name, r.recorded.totals.*field,
             r.unchanged.totals.*field, r.changed.totals.*field);
}

void print_table(const WhatIfResult& r) {
  fmt::print("{:<20}{:>14}{:>14}{:>14}\n", "", "recorded", "predicted", "what if");
  print_row("TTFT p50, ms", r, &ServingReport::ttft_p50);
  print_row("TTFT p99, ms", r, &ServingReport::ttft_p99);
  print_row("ITL p50, ms", r, &ServingReport::itl_p50);
  print_row("ITL p99, ms", r, &ServingReport::itl_p99);
  print_row("hit rate, %", r, &ServingReport::hit_rate, 100);
  print_row("output, tok/s", r, &ServingReport::output_tok_s);
  print_count("preemptions", r, &EngineCounters::preemptions);
  print_count("recomputed tokens", r, &EngineCounters::recomputed_tokens);
  fmt::print("{:<20}{:>14}{:>14}{:>14}\n", "answered", r.recorded.finished, r.unchanged.finished,
             r.changed.finished);
  fmt::print("fitted to {} steps, off by {:.1f} % on average, {:.1f} % at p95\n", r.steps,
             100 * r.error_mean, 100 * r.error_p95);
  if (r.left_out > 0)
    fmt::print("{} recorded requests never got a token and are left out\n", r.left_out);
  if (r.reconfigurations > 0)
    fmt::print("settings changed {} times in the recording, and so in both predictions\n",
               r.reconfigurations);
  if (!r.refused.empty()) fmt::print("refused under these settings: {}\n", r.refused);
}

int what_if_command(const WhatIfFlags& flags) {
  const auto reader = TraceReader::open(flags.file);
  if (!reader.ok()) {
    print_error(reader.error().message);
    return kExitFailure;
  }
  const auto result = what_if(**reader, flags.settings);
  if (!result.ok()) {
    print_error(result.error().message);
    return result.error().code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  flags.json ? print_json_result(*result) : print_table(*result);
  return kExitOk;
}

}  // namespace

void add_trace_whatif(CLI::App& trace, int& exit_code) {
  auto flags = std::make_shared<WhatIfFlags>();
  CLI::App* command = trace.add_subcommand(
      "whatif", "A recorded day under other settings, beside what was recorded");
  command->add_option("file", flags->file, "A .quiretrace")->required();
  command->add_option("--set", flags->settings,
                      "An engine setting, as name=value (policy=lpm); repeatable");
  command->add_flag("--json", flags->json, "One JSON object");
  command->callback([flags, &exit_code] { exit_code = what_if_command(*flags); });
}

}  // namespace quire
