#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"
#include "engine/runner/bench_calibrate.h"
#include "engine/runner/bench_policy.h"
#include "engine/runner/bench_prefix_index.h"
#include "engine/runner/bench_scheduler.h"
#include "engine/runner/serving_workload.h"
#include "engine/runner/whatif.h"
#include "engine/trace/recorder.h"

// The benches that need no weights, and the one that measures what they run on.
namespace quire {
namespace {

using Json = nlohmann::ordered_json;

int fail(const Error& error) {
  print_error(error.message);
  return kExitFailure;
}

const char* policy_name(SchedulingPolicy policy) {
  switch (policy) {
    case SchedulingPolicy::kFcfs:
      return "fcfs";
    case SchedulingPolicy::kPriority:
      return "priority";
    case SchedulingPolicy::kLpm:
      return "lpm";
  }
  return "";
}

// ---- calibrate

struct CalibrateFlags {
  BenchModelFlags bench;
  CalibrateOptions options;
};

Status bench_calibrate(const BareModel& model, const CalibrateFlags& flags) {
  QUIRE_TRY(const auto result, calibrate(*model.weights.model, flags.options));
  const Json costs = costs_json(result.costs);
  if (flags.bench.json) {
    Json json = {{"model", model.weights.name}};
    json.update(costs);
    json["steps"] = result.steps;
    json["error_mean"] = rounded(result.error_mean, 4);
    json["error_p95"] = rounded(result.error_p95, 4);
    print_json(json);
    return Ok{};
  }
  fmt::print("{}: milliseconds a step\n", model.weights.name);
  for (const auto& [name, value] : costs["ms"].items())
    fmt::print("  {:<14}{:>12.6f}\n", name, value.get<double>());
  fmt::print("off by {:.1f} % on average, {:.1f} % at p95, over {} steps; block moves {:.1f} us\n",
             100 * result.error_mean, 100 * result.error_p95, result.steps,
             result.costs.move_us_per_block);
  return Ok{};
}

void add_calibrate(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command =
      bench.add_subcommand("calibrate", "Fit what a step of a model costs on this machine");
  flags->bench.add_to(*command);
  command->add_option("--context", flags->options.context, "Longest context measured, in tokens")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  command->add_option("--repeats", flags->options.repeats, "Of every decode and mixed step")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench,
                           [&](const BareModel& model) { return bench_calibrate(model, *flags); });
  });
}

// ---- simulate

struct SimulateFlags {
  CostFlags costs;
  WorkloadOptions workload;
  EngineConfig config;
  std::vector<std::string> settings;
  std::string record;
  bool json = false;
};

Status record_simulation(EngineCore& core, const std::string& path, int vocab_size,
                         std::shared_ptr<TraceRecorder>& recorder) {
  TraceRecorder::Options options;
  options.header.config = core.config();
  options.header.program = "quire bench simulate";
  options.header.model = "costs";
  options.header.vocab_size = vocab_size;
  options.request_snapshot = [&core](const std::function<void(const EngineSnapshot&)>& take) {
    take(core.snapshot());
  };
  QUIRE_TRY(recorder, TraceRecorder::create(path, std::move(options), core.snapshot()));
  core.add_sink(recorder.get());
  return Ok{};
}

Result<SimulationResult> run_simulate(const SimulateFlags& flags) {
  SimulationOptions options;
  options.config = flags.config;
  QUIRE_RETURN_IF_ERROR(apply_settings(options.config, flags.settings));
  QUIRE_TRY(options.costs, flags.costs.costs());
  WorkloadOptions workload = flags.workload;
  workload.max_tokens_in_all =
      std::min(workload.max_tokens_in_all, options.config.effective_context());
  options.vocab_size = workload.vocab_size;
  QUIRE_TRY(const RequestSource source, make_workload(workload));
  std::shared_ptr<TraceRecorder> recorder;
  if (!flags.record.empty())
    options.on_begin = [&](EngineCore& core) {
      return record_simulation(core, flags.record, options.vocab_size, recorder);
    };
  QUIRE_TRY(SimulationResult result, simulate(options, source));
  if (recorder == nullptr) return result;
  recorder->finish();
  if (!recorder->error().empty()) return make_error(ErrorCode::kIo, recorder->error());
  return result;
}

void print_report(const ServingReport& r) {
  fmt::print("{} requests in {:.0f} s of simulated time: {} answered, {} rejected, {:.1f} tok/s\n",
             r.requests + r.rejected, r.duration_s, r.finished, r.rejected, r.output_tok_s);
  fmt::print("{:<26}{:>12}{:>12}{:>12}\n", "milliseconds", "p50", "p99", "max");
  fmt::print("{:<26}{:>12.1f}{:>12.1f}\n", "to the first token", r.ttft_p50, r.ttft_p99);
  fmt::print("{:<26}{:>12.1f}{:>12.1f}\n", "between two tokens", r.itl_p50, r.itl_p99);
  fmt::print("{:<26}{:>12.1f}{:>12.1f}\n", "per output token", r.tpot_p50, r.tpot_p99);
  fmt::print("{:<26}{:>12.1f}{:>12.1f}{:>12.1f}\n", "in the queue", r.wait_p50, r.wait_p99,
             r.wait_max);
  fmt::print("prefix hits {:.1f} %, {} preemptions, {} tokens recomputed, {} blocks evicted\n",
             100 * r.hit_rate, r.totals.preemptions, r.totals.recomputed_tokens,
             r.totals.evictions);
}

int bench_simulate(const SimulateFlags& flags) {
  const auto result = run_simulate(flags);
  if (!result.ok()) return fail(result.error());
  const double steps = static_cast<double>(result->report.totals.steps);
  const double requests = static_cast<double>(result->report.requests);
  if (flags.json) {
    Json json = report_json(result->report);
    json["wall_s"] = rounded(result->wall_s, 3);
    json["steps_per_s"] = rounded(steps / result->wall_s, 1);
    json["requests_per_s"] = rounded(requests / result->wall_s, 1);
    json["schedule_share"] = rounded(result->schedule_s / result->wall_s, 4);
    json["schedule_mean_us"] = rounded(result->schedule_s / steps * 1e6, 2);
    print_json(json);
    return kExitOk;
  }
  print_report(result->report);
  fmt::print(
      "took {:.1f} s: {:.0f} steps/s, {:.0f} requests/s; deciding steps took {:.0f} % of it, "
      "{:.1f} "
      "us each\n",
      result->wall_s, steps / result->wall_s, requests / result->wall_s,
      100 * result->schedule_s / result->wall_s, result->schedule_s / steps * 1e6);
  return kExitOk;
}

void add_simulate(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<SimulateFlags>();
  flags->config.num_blocks = 4096;
  flags->config.max_model_len = 8192;
  WorkloadOptions& w = flags->workload;
  CLI::App* command = bench.add_subcommand(
      "simulate", "A long day of requests through the scheduler, on costs instead of a model");
  command->add_option("--requests", w.num_requests)
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  command->add_option("--seed", w.seed)->capture_default_str();
  command->add_option("--rate", w.rate, "Requests per second")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--prefixes", w.num_prefixes, "Shared beginnings of prompts")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  command->add_option("--num-blocks", flags->config.num_blocks, "KV pool, in blocks of 16 tokens")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--set", flags->settings,
                      "An engine setting, as name=value (policy=lpm); repeatable");
  flags->costs.add_to(*command);
  command->add_option("--record", flags->record, "Write a .quiretrace of it");
  command->add_flag("--json", flags->json, "One JSON object");
  command->callback([flags, &exit_code] { exit_code = bench_simulate(*flags); });
}

// ---- scheduler

struct SchedulerFlags {
  SchedulerBenchOptions options;
  bool json = false;
};

int bench_scheduler(const SchedulerFlags& flags) {
  const auto lines = run_scheduler_bench(flags.options);
  if (!lines.ok()) return fail(lines.error());
  if (!flags.json)
    fmt::print("{:<10}{:>9}{:>9}{:>9}{:>9}   per step: {:>8}{:>8}{:>10}{:>11}{:>15}\n", "policy",
               "p50 us", "p99 us", "mean us", "max us", "decodes", "admits", "finishes",
               "preempted", "cached tokens");
  for (const SchedulerBenchLine& line : *lines) {
    if (flags.json)
      print_json({{"policy", policy_name(line.policy)},
                  {"steps", line.steps},
                  {"schedule_p50_us", rounded(line.schedule_p50_us, 1)},
                  {"schedule_p99_us", rounded(line.schedule_p99_us, 1)},
                  {"schedule_mean_us", rounded(line.schedule_mean_us, 1)},
                  {"schedule_max_us", rounded(line.schedule_max_us, 1)},
                  {"running", rounded(line.running, 1)},
                  {"waiting", rounded(line.waiting, 1)},
                  {"decodes", rounded(line.decodes, 1)},
                  {"admissions", rounded(line.admissions, 3)},
                  {"finishes", rounded(line.finishes, 3)},
                  {"preemptions", rounded(line.preemptions, 3)},
                  {"cached_tokens", rounded(line.cached_tokens, 1)}});
    else
      fmt::print(
          "{:<10}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}             {:>8.1f}{:>8.2f}{:>10.2f}"
          "{:>11.2f}{:>15.1f}\n",
          policy_name(line.policy), line.schedule_p50_us, line.schedule_p99_us,
          line.schedule_mean_us, line.schedule_max_us, line.decodes, line.admissions, line.finishes,
          line.preemptions, line.cached_tokens);
  }
  return kExitOk;
}

void add_scheduler(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<SchedulerFlags>();
  SchedulerBenchOptions& o = flags->options;
  CLI::App* command = bench.add_subcommand(
      "scheduler", "What deciding a step takes on a full server, per policy; needs no model");
  command->add_option("--steps", o.steps, "Steps measured")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--running", o.num_running)
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command->add_option("--waiting", o.num_waiting)
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--num-blocks", o.num_blocks)
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--prompt", o.prompt_tokens, "Prompt tokens, give or take 10 %")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--output", o.output_tokens, "Output tokens, give or take 50 %")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_flag("--cpu-time", o.cpu_time, "Processor time instead of wall time");
  command->add_flag("--json", flags->json, "One JSON object per policy");
  command->callback([flags, &exit_code] { exit_code = bench_scheduler(*flags); });
}

// ---- prefix-index

struct PrefixIndexFlags {
  PrefixIndexBenchOptions options;
  bool json = false;
};

int bench_prefix_index(const PrefixIndexFlags& flags) {
  const auto lines = run_prefix_index_bench(flags.options);
  if (!lines.ok()) return fail(lines.error());
  if (!flags.json)
    fmt::print("{:<8}{:>8}{:>12}{:>10}{:>9}{:>9}{:>10}{:>13}{:>10}{:>14}\n", "index", "blocks",
               "hit tokens", "hit rate", "copies", "copied", "evicted", "lookup p50", "p99",
               "unhashed p50");
  for (const PrefixIndexBenchLine& line : *lines) {
    const char* name = line.index == PrefixIndexKind::kRadix ? "radix" : "hash";
    if (flags.json)
      print_json({{"index", name},
                  {"num_blocks", line.num_blocks},
                  {"prompt_tokens", line.prompt_tokens},
                  {"hit_tokens", line.hit_tokens},
                  {"hit_rate", rounded(line.hit_rate, 4)},
                  {"partial_copies", line.partial_copies},
                  {"copied_tokens", line.copied_tokens},
                  {"evictions", line.evictions},
                  {"lookup_p50_us", rounded(line.lookup_p50_us, 2)},
                  {"lookup_p99_us", rounded(line.lookup_p99_us, 2)},
                  {"first_lookup_p50_us", rounded(line.first_lookup_p50_us, 2)}});
    else
      fmt::print("{:<8}{:>8}{:>12}{:>9.1f}%{:>9}{:>9}{:>10}{:>10.1f} us{:>7.1f} us{:>11.1f} us\n",
                 name, line.num_blocks, line.hit_tokens, 100 * line.hit_rate, line.partial_copies,
                 line.copied_tokens, line.evictions, line.lookup_p50_us, line.lookup_p99_us,
                 line.first_lookup_p50_us);
  }
  return kExitOk;
}

void add_prefix_index(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<PrefixIndexFlags>();
  PrefixIndexBenchOptions& o = flags->options;
  CLI::App* command = bench.add_subcommand(
      "prefix-index", "Hash chain and radix tree on prompts that branch; needs no model");
  command->add_option("--requests", o.requests)
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--pool", o.pool_part, "Blocks, as a part of what the whole tree takes")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object per index");
  command->callback([flags, &exit_code] { exit_code = bench_prefix_index(*flags); });
}

// ---- policy

struct PolicyFlags {
  PolicyBenchOptions options;
  CostFlags costs;
  bool json = false;
};

int bench_policy(PolicyFlags flags) {
  auto costs = flags.costs.costs();
  if (!costs.ok()) return fail(costs.error());
  flags.options.costs = *costs;
  const auto lines = run_policy_bench(flags.options);
  if (!lines.ok()) return fail(lines.error());
  if (!flags.json)
    fmt::print("{:<20}{:>10}{:>12}{:>14}{:>14}{:>14}{:>14}{:>11}\n", "policy", "hit rate", "tok/s",
               "ttft p50 s", "ttft p99 s", "wait p50 s", "wait max s", "overtaken");
  for (const PolicyBenchLine& line : *lines) {
    if (flags.json) {
      Json json = {{"policy", line.policy}};
      json.update(report_json(line.report));
      json["overtaken_max"] = line.overtaken_max;
      print_json(json);
    } else {
      const ServingReport& r = line.report;
      fmt::print("{:<20}{:>9.1f}%{:>12.1f}{:>14.2f}{:>14.2f}{:>14.2f}{:>14.2f}{:>11}\n",
                 line.policy, 100 * r.hit_rate, r.output_tok_s, r.ttft_p50 / 1e3, r.ttft_p99 / 1e3,
                 r.wait_p50 / 1e3, r.wait_max / 1e3, line.overtaken_max);
    }
  }
  return kExitOk;
}

void add_policy(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<PolicyFlags>();
  EngineConfig& config = flags->options.config;
  config.num_blocks = 1024;
  config.max_model_len = 8192;
  config.max_num_seqs = 16;
  config.max_queue = 1 << 20;
  WorkloadOptions& w = flags->options.workload;
  w.num_requests = 2000;
  w.rate = 2.5;
  w.num_prefixes = 100;
  w.prefix_median = 768;
  CLI::App* command = bench.add_subcommand(
      "policy", "Arrival order against longest cached prefix first, with and without its bound");
  command->add_option("--requests", w.num_requests)
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--rate", w.rate, "Requests per second; more than it can serve")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--shared", w.shared_part, "Part of the requests with a shared prefix")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--prefixes", w.num_prefixes, "Shared prefixes")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--seed", w.seed)->capture_default_str();
  command->add_option("--num-blocks", config.num_blocks)
      ->check(CLI::Range(512, 1 << 24))
      ->capture_default_str();
  command->add_option("--bound", config.lpm_max_overtakes, "Admissions that may pass a request")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  flags->costs.add_to(*command);
  command->add_flag("--json", flags->json, "One JSON object per policy");
  command->callback([flags, &exit_code] { exit_code = bench_policy(*flags); });
}

}  // namespace

void add_simulation_benches(CLI::App& bench, int& exit_code) {
  add_prefix_index(bench, exit_code);
  add_policy(bench, exit_code);
  add_calibrate(bench, exit_code);
  add_simulate(bench, exit_code);
  add_scheduler(bench, exit_code);
}

}  // namespace quire
