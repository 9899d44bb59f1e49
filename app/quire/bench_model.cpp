#include <fmt/core.h>

#include <cstdio>
#include <iostream>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"
#include "engine/runner/bench_model_sizes.h"
#include "engine/runner/bench_model_text.h"

namespace quire {
namespace {

constexpr int kMaxTokens = 1 << 20;

// Lists as they were written; empty: the default's.
struct ModelBenchFlags {
  BenchModelFlags bench;
  std::string prompts, depths, parallel;
  int shared_prefix = 0, decode_tokens = ModelBenchOptions{}.decode_tokens;
  int rounds = ModelBenchOptions{}.rounds;
  bool paced = false;
};

// CLI11 has checked every list by now.
ModelBenchOptions options_of(const ModelBenchFlags& flags, int context_length) {
  ModelBenchOptions o = default_model_bench(context_length);
  if (!flags.prompts.empty()) o.prompts = parse_bench_list(flags.prompts, 1, kMaxTokens).value();
  if (!flags.depths.empty()) {
    o.depths = parse_bench_list(flags.depths, 0, kMaxTokens).value();
    if (!o.depths.empty()) o.parallel_depth = o.depths.front();
  }
  if (!flags.parallel.empty()) {
    o.parallel = parse_bench_list(flags.parallel, 1, kMaxBenchStreams).value();
    if (!o.parallel.empty()) o.shared_requests = o.parallel;
  }
  o.shared_prefix = flags.shared_prefix;
  o.decode_tokens = flags.decode_tokens;
  o.rounds = flags.rounds;
  return o;
}

// Another program's turn between two rounds.
bool next_line() {
  std::string line;
  return static_cast<bool>(std::getline(std::cin, line));
}

void print_round(const ModelBenchSeries& series) {
  fmt::print("{}\n", model_bench_round_json(series));
  std::fflush(stdout);
}

std::int64_t kv_bytes_per_token(const FlatModel& model) {
  return static_cast<std::int64_t>(
      model.backend().kv_bytes_per_block(model.config().kv_spec(), kBenchBlockSize) /
      kBenchBlockSize);
}

Status bench_model(const BareModel& model, const ModelBenchFlags& flags) {
  FlatModel& flat = *model.weights.model;
  const ModelBenchOptions options = options_of(flags, flat.config().context_length);
  QUIRE_TRY(const auto result,
            run_model_bench(flat, options, flags.paced ? BeforeRound(next_line) : BeforeRound(),
                            flags.paced ? AfterRound(print_round) : AfterRound()));
  if (flags.paced) return Ok{};
  const ModelBenchRun run{model.weights.name,
                          model.weights.description,
                          model.device(),
                          kv_bytes_per_token(flat),
                          options,
                          result};
  if (flags.bench.json)
    fmt::print("{}\n", model_bench_json(run));
  else
    fmt::print("{}", model_bench_text(run));
  return Ok{};
}

constexpr const char* kModelFooter =
    R"(Everything is greedy and goes through the scheduler; a context is computed once and then found in the
prefix cache. Of the default sizes those are taken that the model's context has room for.

--json prints one object: model, description, backend, rounds, decode_tokens, shared_prefix_tokens, and
  kv_bytes_per_token: of the cache
  us_per_context_token: what a token of context adds to a step of one stream; null without two depths
  prefill, decode, parallel, shared_prefix: lists
The entries of the lists have
  prompt, depth, streams (with depth) or requests: the size
  tokens: of a round; prompt tokens computed (prefill), or tokens put out
  steps: the engine ran in a round
  prompt_tokens, cached_tokens: of the requests, and how many of these the cache had
  tok_s, step_ms, wall_s: medians; tok_s_min and tok_s_max: the slowest and the fastest round
  rounds_s, rounds_cpu_s: wall time of every round, and CPU time of all threads)";

CLI::Validator list_of(int least, int most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        const auto values = parse_bench_list(text, least, most);
        return values.ok() ? std::string() : values.error().message;
      },
      fmt::format("LIST of {}..{}, or none", least, most));
}

}  // namespace

void add_model_bench(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<ModelBenchFlags>();
  CLI::App* command = bench.add_subcommand(
      "model", "Prefill and decode speed, by length, depth and number of streams");
  flags->bench.add_to(*command);
  command->add_option("--prompt", flags->prompts, "Prompts to prefill, in tokens")
      ->check(list_of(1, kMaxTokens))
      ->default_str("128,512,2048");
  command
      ->add_option("--depth", flags->depths,
                   "Tokens in the cache before one stream decodes; the first is also the depth of "
                   "--parallel,\nwhich is 256 without this")
      ->check(list_of(0, kMaxTokens))
      ->default_str("0,256,1024,4096");
  command->add_option("--parallel", flags->parallel, "Streams that decode together")
      ->check(list_of(1, kMaxBenchStreams))
      ->default_str("1,4,16,64");
  command
      ->add_option(
          "--shared-prefix", flags->shared_prefix,
          fmt::format("Also time requests, 4 or as --parallel says, whose prompts share so "
                      "many new tokens,\nwith {} of their own and {} put out; 0 = do not",
                      kSharedOwnTokens, kSharedOutputTokens))
      ->check(CLI::Range(0, kMaxTokens))
      ->capture_default_str();
  command->add_option("--decode", flags->decode_tokens, "Tokens each stream decodes in a round")
      ->check(CLI::Range(1, kMaxTokens))
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds, "Rounds of each size, after a short warm-up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--paced", flags->paced,
                    "Wait for a line on standard input before every round and print its time after "
                    "it, so that\nanother program's rounds fit between");
  command->footer(kModelFooter);
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench,
                           [&](const BareModel& model) { return bench_model(model, *flags); });
  });
}

}  // namespace quire
