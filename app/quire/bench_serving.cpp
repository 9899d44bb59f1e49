#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"
#include "engine/runner/bench_admission.h"
#include "engine/runner/bench_multiturn.h"
#include "engine/runner/bench_preemption.h"

// The benches that serve requests on a model.
namespace quire {
namespace {

// ---- admission

struct AdmissionFlags {
  BenchModelFlags bench;
  AdmissionBenchOptions options;
};

std::string range_of(std::vector<double> values) {
  const auto [low, high] = std::ranges::minmax_element(values);
  return fmt::format("{:.1f}..{:.1f}", *low, *high);
}

// Every round's values in one cell, lowest and highest.
void print_admission(const std::vector<AdmissionBenchLine>& lines) {
  fmt::print("{:<12}{:>18}{:>22}{:>22}{:>22}{:>22}\n", "ms", "ITL p95 quiet", "ITL p95 admission",
             "ITL mean admission", "TTFT admitted", "TTFT alone");
  std::vector<std::string> arms;
  std::map<std::string, std::map<int, std::vector<double>>> columns;
  for (const AdmissionBenchLine& line : lines) {
    if (!columns.contains(line.arm)) arms.push_back(line.arm);
    const double values[] = {line.itl_p95_quiet, line.itl_p95_admission, line.itl_mean_admission,
                             line.ttft, line.ttft_alone};
    for (int c = 0; c < 5; ++c)
      if (values[c] > 0) columns[line.arm][c].push_back(values[c]);
  }
  for (const std::string& arm : arms) {
    const auto cell = [&](int c) {
      return columns[arm].contains(c) ? range_of(columns[arm][c]) : std::string("-");
    };
    fmt::print("{:<12}{:>18}", arm, cell(0));
    for (int c = 1; c < 5; ++c) fmt::print("{:>22}", cell(c));
    fmt::print("\n");
  }
}

// Each arm against the small chunk of its own round.
void print_admission_ratios(const std::vector<AdmissionBenchLine>& lines, int small) {
  fmt::print("\n{:<8}{:<12}{:>36}{:>28}\n", "round", "arm",
             "ITL p95 admission / chunk " + std::to_string(small), "TTFT admitted / the same");
  const AdmissionBenchLine* base = nullptr;
  for (const AdmissionBenchLine& line : lines) {
    if (line.arm == "chunk " + std::to_string(small)) {
      base = &line;
    } else if (base != nullptr && base->round == line.round && line.ttft > 0) {
      fmt::print("{:<8}{:<12}{:>36.3f}{:>28.3f}\n", line.round, line.arm,
                 line.itl_p95_admission / base->itl_p95_admission, line.ttft / base->ttft);
    }
  }
}

Status bench_admission(FlatModel& model, const AdmissionFlags& flags) {
  std::vector<AdmissionBenchLine> lines;
  QUIRE_RETURN_IF_ERROR(
      run_admission_bench(model, flags.options, [&](const AdmissionBenchLine& line) {
        lines.push_back(line);
        if (!flags.bench.json) return;
        print_json({{"arm", line.arm},
                    {"round", line.round},
                    {"max_itl_ms", rounded(line.max_itl_ms, 2)},
                    {"itl_p95_quiet_ms", rounded(line.itl_p95_quiet, 2)},
                    {"itl_p95_admission_ms", rounded(line.itl_p95_admission, 2)},
                    {"itl_mean_admission_ms", rounded(line.itl_mean_admission, 2)},
                    {"ttft_ms", rounded(line.ttft, 1)},
                    {"ttft_alone_ms", rounded(line.ttft_alone, 1)}});
        std::fflush(stdout);
      }));
  if (!flags.bench.json) {
    print_admission(lines);
    print_admission_ratios(lines, flags.options.contended);
  }
  return Ok{};
}

void add_admission(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<AdmissionFlags>();
  AdmissionBenchOptions& o = flags->options;
  CLI::App* command = bench.add_subcommand(
      "admission", "What a long prompt does to decoding streams, by how it is cut");
  flags->bench.add_to(*command);
  command->add_option("--prompt", o.prompt_tokens, "Tokens of the admitted prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--streams", o.streams)->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--rounds", o.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_option("--quiet", o.quiet_steps, "Steps before the prompt comes")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command->add_option("--alone", o.alone, "The larger chunk")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--contended", o.contended, "The smaller chunk")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench, [&](const BareModel& model) {
      return bench_admission(*model.weights.model, *flags);
    });
  });
}

// ---- preemption

struct PreemptionFlags {
  BenchModelFlags bench;
  PreemptionBenchOptions options;
};

const char* mode_name(PreemptionMode mode) {
  switch (mode) {
    case PreemptionMode::kRecompute:
      return "recompute";
    case PreemptionMode::kSwap:
      return "swap";
    case PreemptionMode::kAuto:
      return "auto";
  }
  return "";
}

// The shortest context from which swapping stays cheaper; 0 if it never is.
int crossover(const std::vector<SwapCrossover>& sweep) {
  int from = 0;
  for (const SwapCrossover& cost : sweep) {
    if (cost.swap_ms >= cost.recompute_ms)
      from = 0;
    else if (from == 0)
      from = cost.context_tokens;
  }
  return from;
}

void print_preemption_json(const PreemptionBench& result) {
  for (const PreemptionBenchLine& line : result.lines)
    print_json({{"mode", mode_name(line.mode)},
                {"caching", line.caching},
                {"total_s", rounded(line.total_s, 3)},
                {"tpot_p50_ms", rounded(line.tpot_p50_ms, 2)},
                {"tpot_p99_ms", rounded(line.tpot_p99_ms, 2)},
                {"preemptions", line.preemptions},
                {"swap_preemptions", line.swap_preemptions},
                {"recomputed_tokens", line.recomputed_tokens},
                {"blocks_swapped", line.blocks_swapped},
                {"bytes_swapped", line.bytes_swapped},
                {"same_outputs", line.same_outputs}});
  for (const SwapCrossover& cost : result.sweep)
    print_json({{"context_tokens", cost.context_tokens},
                {"recompute_ms", rounded(cost.recompute_ms, 3)},
                {"swap_ms", rounded(cost.swap_ms, 3)}});
  print_json({{"swap_us_per_block", rounded(result.swap_us_per_block, 2)},
              {"bytes_per_block", result.bytes_per_block},
              {"swap_wins_from_tokens", crossover(result.sweep)}});
}

void print_preemption(const PreemptionBench& result) {
  fmt::print("{:<11}{:>8}{:>10}{:>10}{:>10}{:>11}{:>8}{:>12}{:>10}{:>10}\n", "mode", "caching",
             "total s", "tpot p50", "tpot p99", "preempted", "swaps", "recomputed", "blocks",
             "MiB");
  for (const PreemptionBenchLine& line : result.lines)
    fmt::print("{:<11}{:>8}{:>10.2f}{:>10.1f}{:>10.1f}{:>11}{:>8}{:>12}{:>10}{:>10.1f}{}\n",
               mode_name(line.mode), line.caching ? "on" : "off", line.total_s, line.tpot_p50_ms,
               line.tpot_p99_ms, line.preemptions, line.swap_preemptions, line.recomputed_tokens,
               line.blocks_swapped, static_cast<double>(line.bytes_swapped) / (1 << 20),
               line.same_outputs ? "" : "   OTHER OUTPUTS");
  fmt::print("\n{:>10}{:>16}{:>16}\n", "context", "recompute ms", "swap ms");
  for (const SwapCrossover& cost : result.sweep)
    fmt::print("{:>10}{:>16.2f}{:>16.3f}\n", cost.context_tokens, cost.recompute_ms, cost.swap_ms);
  const int from = crossover(result.sweep);
  if (from > 0)
    fmt::print("swapping is cheaper from {} tokens on\n", from);
  else
    fmt::print("computing again is cheaper at every length\n");
}

Status bench_preemption(FlatModel& model, const PreemptionFlags& flags) {
  QUIRE_TRY(const PreemptionBench result, run_preemption_bench(model, flags.options));
  flags.bench.json ? print_preemption_json(result) : print_preemption(result);
  return Ok{};
}

void add_preemption(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<PreemptionFlags>();
  PreemptionBenchOptions& o = flags->options;
  CLI::App* command = bench.add_subcommand(
      "preemption", "Computing a preempted request again against swapping it to host memory");
  flags->bench.add_to(*command);
  command->add_option("--requests", o.requests)
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_option("--prompt", o.prompt_tokens)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--output", o.output_tokens)
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  command->add_option("--pool", o.pool_part, "Blocks, as a part of what running requests may take")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--context", o.longest_context, "Longest context of the sweep")
      ->check(CLI::Range(16, 1 << 20))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench, [&](const BareModel& model) {
      return bench_preemption(*model.weights.model, *flags);
    });
  });
}

// ---- multiturn

struct MultiturnFlags {
  BenchModelFlags bench;
  MultiturnBenchOptions options;
  bool radix = false;
};

Status bench_multiturn(FlatModel& model, MultiturnFlags flags) {
  if (flags.radix) flags.options.index = PrefixIndexKind::kRadix;
  QUIRE_TRY(const auto lines, run_multiturn_bench(model, flags.options));
  if (!flags.bench.json)
    fmt::print(
        "pool_part,num_blocks,hit_rate,computed_prompt_tokens,evictions,ttft_p50_ms,ttft_p99_ms,"
        "total_s\n");
  for (const MultiturnBenchLine& line : lines) {
    if (flags.bench.json)
      print_json({{"pool_part", line.pool_part},
                  {"num_blocks", line.num_blocks},
                  {"hit_rate", rounded(line.hit_rate, 4)},
                  {"computed_prompt_tokens", line.computed_prompt_tokens},
                  {"evictions", line.evictions},
                  {"ttft_p50_ms", rounded(line.ttft_p50_ms, 2)},
                  {"ttft_p99_ms", rounded(line.ttft_p99_ms, 2)},
                  {"total_s", rounded(line.total_s, 3)}});
    else
      fmt::print("{},{},{:.4f},{},{},{:.2f},{:.2f},{:.3f}\n", line.pool_part, line.num_blocks,
                 line.hit_rate, line.computed_prompt_tokens, line.evictions, line.ttft_p50_ms,
                 line.ttft_p99_ms, line.total_s);
  }
  return Ok{};
}

void add_multiturn(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<MultiturnFlags>();
  MultiturnBenchOptions& o = flags->options;
  CLI::App* command = bench.add_subcommand(
      "multiturn", "Prefix hits of growing conversations against the pool's size, as CSV");
  flags->bench.add_to(*command);
  command->add_option("--users", o.users)->check(CLI::Range(1, 10'000))->capture_default_str();
  command->add_option("--turns", o.turns)->check(CLI::Range(1, 1000))->capture_default_str();
  command->add_flag("--radix", flags->radix, "The radix tree instead of the hash chain");
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench, [&](const BareModel& model) {
      return bench_multiturn(*model.weights.model, *flags);
    });
  });
}

}  // namespace

void add_serving_benches(CLI::App& bench, int& exit_code) {
  add_admission(bench, exit_code);
  add_preemption(bench, exit_code);
  add_multiturn(bench, exit_code);
}

}  // namespace quire
