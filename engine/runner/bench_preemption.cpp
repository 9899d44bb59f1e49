#include "engine/runner/bench_preemption.h"

#include <algorithm>

#include "engine/core/engine_core.h"
#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/direct_step.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kTokenBudget = 512;

int blocks_for(int tokens) {
  return (tokens + kBlockSize - 1) / kBlockSize;
}

using Outputs = std::vector<std::vector<TokenId>>;

EngineConfig config_for(FlatModel& model, const PreemptionBenchOptions& o) {
  const int each = blocks_for(o.prompt_tokens + o.output_tokens);
  const int seqs = std::min(o.max_num_seqs, o.requests);
  EngineConfig config;
  config.num_blocks = std::max(each, static_cast<int>(o.pool_part * each * seqs));
  config.block_size = kBlockSize;
  config.max_num_seqs = o.max_num_seqs;
  config.max_num_batched_tokens = kTokenBudget;
  config.max_model_len = model.config().context_length;
  config.max_queue = o.requests;
  config.num_swap_blocks = each * seqs;
  return config;
}

Result<PreemptionBenchLine> run_mode(ModelRunner& runner, EngineConfig config,
                                     const PreemptionBenchOptions& o, Outputs& outputs) {
  PreemptionBenchLine line;
  line.mode = config.preemption_mode;
  line.caching = config.enable_prefix_caching;
  const auto decisions = make_measured_decisions(runner.swap_us_per_block());
  EngineCore core(config, runner, bench_clock);
  core.set_decision_source(decisions.get());
  BenchRandom random(9);
  ServingMetrics metrics;
  const double start = bench_clock();
  for (int i = 0; i < o.requests; ++i) {
    QUIRE_RETURN_IF_ERROR(core.add_request(greedy_request(
        i, random_tokens(random, o.prompt_tokens, runner.vocab_size()), o.output_tokens)));
    metrics.arrived(RequestId{i}, start);
  }
  outputs.assign(static_cast<std::size_t>(o.requests), {});
  while (core.has_unfinished()) {
    const auto step = core.step();
    const double now = bench_clock();
    for (const RequestOutput& output : step) {
      metrics.produced(output.request, static_cast<int>(output.tokens.size()), now);
      for (const SampledRow& row : output.tokens)
        outputs[static_cast<std::size_t>(index(output.request))].push_back(row.token);
      if (output.finish_reason != FinishReason::kNone) metrics.ended(output.request, true);
    }
  }
  line.total_s = bench_clock() - start;
  const EngineCounters& counters = core.counters();
  const ServingReport report = metrics.report(counters);
  line.tpot_p50_ms = report.tpot_p50;
  line.tpot_p99_ms = report.tpot_p99;
  line.preemptions = counters.preemptions;
  line.swap_preemptions = counters.swap_preemptions;
  line.recomputed_tokens = counters.recomputed_tokens;
  line.blocks_swapped = counters.blocks_swapped_out + counters.blocks_swapped_in;
  return line;
}

// Computes a context, copies its blocks out and in again, and computes it once more.
SwapCrossover measure_context(ModelRunner& runner, int tokens) {
  SwapCrossover cost;
  cost.context_tokens = tokens;
  std::vector<BlockId> table;
  std::vector<BlockMove> out, in;
  for (std::int32_t b = 0; b < blocks_for(tokens); ++b) {
    table.push_back(BlockId{b});
    out.push_back({MoveKind::kSwapOut, b, b, kBlockSize, RequestId{0}});
    in.push_back({MoveKind::kSwapIn, b, b, kBlockSize, RequestId{0}});
  }
  const auto compute = [&] {
    BenchRandom random(3);
    const auto request = greedy_request(0, random_tokens(random, tokens, runner.vocab_size()), 1);
    const double start = bench_clock();
    while (request->num_output_tokens() == 0) {
      const int left = tokens - request->num_computed_tokens;
      const DirectEntry entry{request.get(), std::min(left, kTokenBudget), table};
      run_direct_step(runner, {&entry, 1}, kBlockSize);
    }
    return (bench_clock() - start) * 1e3;
  };
  const double first = compute();
  runner.move_blocks(out);  // the first use of host memory costs more
  cost.swap_ms = (runner.move_blocks(out) + runner.move_blocks(in)) / 1e3;
  cost.recompute_ms = std::min(first, compute());
  return cost;
}

Status check(const PreemptionBenchOptions& o, int context) {
  if (o.requests < 1 || o.requests > 10'000 || o.prompt_tokens < 1 || o.output_tokens < 2 ||
      o.max_num_seqs < 1 || !(o.pool_part > 0 && o.pool_part <= 1) || o.longest_context < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs requests, lengths above zero and a part of the pool in "
                      "(0, 1].");
  if (o.prompt_tokens + o.output_tokens > context || o.longest_context > context)
    return make_error(
        ErrorCode::kInvalidArgument,
        "The bench needs more tokens than the model's context of " + std::to_string(context) + ".");
  return Ok{};
}

}  // namespace

Result<PreemptionBench> run_preemption_bench(FlatModel& model, const PreemptionBenchOptions& o) {
  QUIRE_RETURN_IF_ERROR(check(o, model.config().context_length));
  const EngineConfig base = config_for(model, o);
  const int sweep_blocks = blocks_for(o.longest_context);
  QUIRE_TRY(auto runner,
            ModelRunner::create(model, std::max(base.num_blocks, sweep_blocks), kBlockSize,
                                kTokenBudget, std::max(base.num_swap_blocks, sweep_blocks)));
  PreemptionBench result;
  result.swap_us_per_block = runner->swap_us_per_block();
  result.bytes_per_block = static_cast<std::int64_t>(
      model.backend().kv_bytes_per_block(model.config().kv_spec(), kBlockSize));
  Outputs first;
  for (const bool caching : {false, true}) {
    for (const PreemptionMode mode :
         {PreemptionMode::kRecompute, PreemptionMode::kSwap, PreemptionMode::kAuto}) {
      EngineConfig config = base;
      config.preemption_mode = mode;
      config.enable_prefix_caching = caching;
      Outputs outputs;
      QUIRE_TRY(PreemptionBenchLine line, run_mode(*runner, config, o, outputs));
      line.bytes_swapped = line.blocks_swapped * result.bytes_per_block;
      if (first.empty()) first = outputs;
      line.same_outputs = outputs == first;
      result.lines.push_back(line);
    }
  }
  for (int tokens = 16; tokens <= o.longest_context; tokens *= 2)
    result.sweep.push_back(measure_context(*runner, tokens));
  return result;
}

}  // namespace quire
