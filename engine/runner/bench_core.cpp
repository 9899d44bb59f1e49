#include "engine/runner/bench_core.h"

#include <chrono>
#include <cstdio>
#include <map>

#include "engine/core/engine_core.h"
#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/slot_engine.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kMaxNumSeqs = 8, kTokenBudget = 512;
constexpr int kSlotTokens = 320, kSlotChunk = 128;
constexpr int kAmpleBlocks = 4096, kTightBlocks = 24;
constexpr int kSystemTokens = 192;
constexpr int kMaxRequests = 100'000;

std::string hash_outputs(const std::vector<std::vector<TokenId>>& outputs) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const auto& tokens : outputs)
    for (const TokenId token : tokens)
      for (int byte = 0; byte < 4; ++byte)
        hash =
            (hash ^ ((static_cast<std::uint32_t>(token) >> (8 * byte)) & 0xff)) * 0x100000001b3ull;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void finish_line(CoreBenchLine& line, const std::vector<std::vector<TokenId>>& outputs,
                 double seconds) {
  for (const auto& tokens : outputs) line.output_tokens += static_cast<int>(tokens.size());
  line.tok_s = line.output_tokens / seconds;
  line.outputs_hash = hash_outputs(outputs);
}

Result<CoreBenchLine> run_slots(FlatModel& model, const std::vector<BenchRequest>& workload) {
  CoreBenchLine line{.engine = "slots", .kv_slots = kMaxNumSeqs * kSlotTokens, .outputs_hash = {}};
  QUIRE_TRY(auto runner,
            ModelRunner::create(model, line.kv_slots / kBlockSize, kBlockSize, kTokenBudget));
  SlotEngine engine(*runner, kMaxNumSeqs, kSlotTokens, kSlotChunk, kBlockSize);
  for (std::size_t i = 0; i < workload.size(); ++i)
    engine.add_request(std::move(
        *greedy_request(static_cast<std::int64_t>(i), workload[i].prompt, workload[i].max_tokens)));
  const double start = bench_clock();
  for (; engine.has_unfinished(); ++line.steps) engine.step();
  const double seconds = bench_clock() - start;
  std::vector<std::vector<TokenId>> outputs;
  for (const Request& request : engine.requests())
    outputs.emplace_back(request.token_ids.begin() + request.num_prompt_tokens,
                         request.token_ids.end());
  finish_line(line, outputs, seconds);
  return line;
}

Result<CoreBenchLine> run_core(FlatModel& model, const std::vector<BenchRequest>& workload,
                               std::string name, int num_blocks) {
  QUIRE_TRY(auto runner, ModelRunner::create(model, num_blocks, kBlockSize, kTokenBudget));
  EngineConfig config;
  config.num_blocks = num_blocks;
  config.block_size = kBlockSize;
  config.max_num_seqs = kMaxNumSeqs;
  config.max_num_batched_tokens = kTokenBudget;
  config.max_model_len = model.config().context_length;
  config.max_queue = kMaxRequests;
  EngineCore core(config, *runner, bench_clock);
  for (std::size_t i = 0; i < workload.size(); ++i)
    QUIRE_RETURN_IF_ERROR(core.add_request(
        greedy_request(static_cast<std::int64_t>(i), workload[i].prompt, workload[i].max_tokens)));
  std::vector<std::vector<TokenId>> outputs(workload.size());
  const double start = bench_clock();
  while (core.has_unfinished())
    for (const RequestOutput& output : core.step())
      for (const SampledRow& row : output.tokens)
        outputs[static_cast<std::size_t>(index(output.request))].push_back(row.token);
  const double seconds = bench_clock() - start;
  const EngineCounters& counters = core.counters();
  CoreBenchLine line{.engine = std::move(name),
                     .kv_slots = num_blocks * kBlockSize,
                     .steps = static_cast<int>(counters.steps),
                     .preemptions = static_cast<int>(counters.preemptions),
                     .outputs_hash = {}};
  if (counters.prefix_cache_queries > 0)
    line.prefix_hit_rate = static_cast<double>(counters.prefix_cache_hits) /
                           static_cast<double>(counters.prefix_cache_queries);
  finish_line(line, outputs, seconds);
  return line;
}

}  // namespace

std::vector<BenchRequest> core_bench_workload(int num_requests, int vocab_size) {
  BenchRandom random(31);
  const auto tokens = [&](int count) {
    return random_tokens(random, count, std::min(vocab_size, 256));
  };
  const std::vector<TokenId> system = tokens(kSystemTokens);
  std::vector<BenchRequest> workload;
  for (int i = 0; i < num_requests; ++i) {
    BenchRequest request{system, 0};
    const std::vector<TokenId> question = tokens(random.between(8, 48));
    request.prompt.insert(request.prompt.end(), question.begin(), question.end());
    request.max_tokens = random.between(8, 40);
    workload.push_back(std::move(request));
  }
  return workload;
}

Result<std::vector<CoreBenchLine>> run_core_bench(FlatModel& model, int num_requests) {
  if (num_requests < 1 || num_requests > kMaxRequests)
    return make_error(ErrorCode::kInvalidArgument,
                      "The number of requests must be between 1 and 100000.");
  if (model.config().context_length < kSlotTokens)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs a model with a context of at least 320 tokens.");
  const auto workload = core_bench_workload(num_requests, model.config().vocab_size);
  std::vector<CoreBenchLine> lines;
  QUIRE_TRY(CoreBenchLine slots, run_slots(model, workload));
  lines.push_back(std::move(slots));
  QUIRE_TRY(CoreBenchLine ample, run_core(model, workload, "core, ample pool", kAmpleBlocks));
  lines.push_back(std::move(ample));
  QUIRE_TRY(CoreBenchLine tight, run_core(model, workload, "core, 24-block pool", kTightBlocks));
  lines.push_back(std::move(tight));
  return lines;
}

}  // namespace quire
