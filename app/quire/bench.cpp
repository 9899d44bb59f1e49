#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"
#include "engine/runner/bench_core.h"
#include "kernels/limits.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

int bench_core(int requests, const ModelFlags& flags) {
  auto model = load_bare(kBuiltinTiny, flags);
  if (!model.ok()) {
    print_error(model.error().message);
    return kExitModel;
  }
  auto lines = run_core_bench(*(*model)->weights.model, requests);
  if (!lines.ok()) {
    print_error(lines.error().message);
    return kExitFailure;
  }
  for (const CoreBenchLine& line : *lines) {
    Json json = {{"engine", line.engine},
                 {"kv_slots", line.kv_slots},
                 {"output_tokens", line.output_tokens},
                 {"tok_s", rounded(line.tok_s, 1)},
                 {"steps", line.steps},
                 {"prefix_hit_rate", rounded(line.prefix_hit_rate, 3)},
                 {"preemptions", line.preemptions},
                 {"outputs_hash", line.outputs_hash}};
    fmt::print("{}\n", json.dump());
  }
  const bool equal = std::all_of(lines->begin(), lines->end(), [&](const CoreBenchLine& line) {
    return line.outputs_hash == lines->front().outputs_hash;
  });
  if (!equal) print_error("the engines' outputs differ");
  return equal ? kExitOk : kExitMismatch;
}

Json json_of(const MachineLimits::Compute& compute) {
  return {{"one_thread", rounded(compute.one_thread, 1)},
          {"all_threads", rounded(compute.all_threads, 1)}};
}

int bench_limits(int threads, bool as_json) {
  LimitsOptions options;
  options.num_threads = threads;
  options.isa = requested_isa();
  std::string error;
  const std::optional<MachineLimits> limits = measure_limits(options, error);
  if (!limits) {
    print_error(error);
    return kExitFailure;
  }
  if (as_json) {
    Json json = {{"isa", limits->isa},
                 {"threads", limits->num_threads},
                 {"fma_gflop_s", json_of(limits->fma_gflop_s)},
                 {"bf16_gflop_s", json_of(limits->bf16_gflop_s)},
                 {"int8_gop_s", json_of(limits->int8_gop_s)},
                 {"read", Json::array()}};
    for (const auto& [bytes, gb_s] : limits->read)
      json["read"].push_back({{"bytes", bytes}, {"gb_s", rounded(gb_s, 1)}});
    fmt::print("{}\n", json.dump());
    return kExitOk;
  }
  fmt::print("{:<21}  {:>9} {:>9}\n",
             fmt::format("{}, {} threads", limits->isa, limits->num_threads), "1 thread", "all");
  for (const auto& [title, unit, compute] :
       {std::tuple("float32 multiply-adds", "GFLOP/s", limits->fma_gflop_s),
        std::tuple("BF16 multiply-adds", "GFLOP/s", limits->bf16_gflop_s),
        std::tuple("8-bit multiply-adds", "GOP/s", limits->int8_gop_s)})
    fmt::print("{:<21}  {:>9.1f} {:>9.1f} {}\n", title, compute.one_thread, compute.all_threads,
               unit);
  for (const auto& [bytes, gb_s] : limits->read)
    fmt::print("reading {:>4} MiB                 {:>9.1f} GB/s\n", bytes >> 20, gb_s);
  return kExitOk;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);

  struct CoreFlags {
    ModelFlags model;
    int requests = 16;
    bool json = false;
  };
  auto core_flags = std::make_shared<CoreFlags>();
  CLI::App* core = bench->add_subcommand("core",
                                         "The same requests through a slot engine, the core, and "
                                         "the core with a small pool (builtin:tiny)");
  core->add_option("--requests", core_flags->requests)
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_thread_flags(*core, core_flags->model.load);
  core->add_option("--backend", core_flags->model.load.backend)
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->capture_default_str();
  core->add_flag("--json", core_flags->json, "Lines are JSON with or without it");
  core->callback([core_flags, &exit_code] {
    exit_code = bench_core(core_flags->requests, core_flags->model);
  });

  struct LimitsFlags {
    int threads = 0;
    bool json = false;
  };
  auto limits_flags = std::make_shared<LimitsFlags>();
  CLI::App* limits = bench->add_subcommand(
      "limits", "What the machine gives at most: multiply-adds, and memory by working set");
  limits->add_option("--threads", limits_flags->threads, "Threads; 0 = one per physical core")
      ->check(CLI::Range(0, 1024));
  limits->add_flag("--json", limits_flags->json, "One JSON object");
  limits->callback([limits_flags, &exit_code] {
    exit_code = bench_limits(limits_flags->threads, limits_flags->json);
  });

  add_model_bench(*bench, exit_code);
  add_perplexity_bench(*bench, exit_code);
  add_simulation_benches(*bench, exit_code);
  add_serving_benches(*bench, exit_code);
  add_overhead_bench(*bench, exit_code);
}

}  // namespace quire
