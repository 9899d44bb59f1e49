#include "tests/model/schedule_checks.h"

#include <array>
#include <cstring>

#include "engine/runner/direct_step.h"

namespace quire::test {
namespace {

constexpr int kBlockSize = 16, kContext = 256;

std::unique_ptr<Request> make_request(std::size_t i, const TestPrompt& prompt) {
  SamplingParams params;
  params.temperature = 0;
  params.ignore_eos = true;
  params.max_tokens = prompt.max_tokens;
  params.seed = 0;
  auto request =
      std::make_unique<Request>(RequestId{static_cast<std::int64_t>(i)}, prompt.prompt, params);
  request->priority = prompt.priority;
  return request;
}

void poison_stale_blocks(const EngineCore& core, KvPool& pool) {
  const std::vector<std::byte> nan(pool.bytes_per_block(), std::byte{0xff});
  const EngineSnapshot snapshot = core.snapshot();
  for (std::size_t i = 0; i < snapshot.blocks.size(); ++i)
    if (snapshot.blocks[i].ref_count == 0 && !snapshot.blocks[i].hashed)
      pool.write_block(static_cast<int>(i), nan);
}

}  // namespace

Runner::Handle RecordingRunner::launch(const Batch& batch, std::span<const SamplingRow> rows,
                                       const std::atomic<bool>& cancel) {
  const Handle handle = runner_.launch(batch, rows, cancel);
  const auto vocab = static_cast<std::ptrdiff_t>(vocab_size());
  auto row = runner_.last_logits().begin();
  for (const SamplingRow& sampled : rows) {
    logits[{sampled.request, sampled.output_index}] = {row, row + vocab};
    row += vocab;
  }
  return handle;
}

std::vector<TestPrompt> five_prompts(int vocab_size) {
  std::vector<TestPrompt> prompts;
  std::uint32_t state = 12345;
  for (const auto& [length, max_tokens] :
       {std::pair{5, 30}, {23, 24}, {16, 20}, {61, 28}, {50, 26}}) {
    TestPrompt prompt{{}, max_tokens, -static_cast<int>(prompts.size() % 4)};
    for (int i = 0; i < length; ++i) {
      state = state * 1664525u + 1013904223u;
      prompt.prompt.push_back(
          static_cast<TokenId>((state >> 8) % static_cast<unsigned>(vocab_size)));
    }
    prompts.push_back(std::move(prompt));
  }
  std::copy_n(prompts[3].prompt.begin(), 2 * kBlockSize + 7, prompts[4].prompt.begin());
  return prompts;
}

ScheduleRun run_scheduled(FlatModel& model, const EngineConfig& config,
                          const std::vector<TestPrompt>& prompts, int steps_between) {
  auto runner = ModelRunner::create(model, config.num_blocks, config.block_size,
                                    config.max_num_batched_tokens, config.num_swap_blocks)
                    .value();
  runner->pool().poison();
  RecordingRunner recorder(*runner);
  EngineCore core(config, recorder, [] { return 0.0; });
  ScheduleRun run;
  run.outputs.resize(prompts.size());
  std::size_t arrived = 0;
  for (int step = 0; arrived < prompts.size() || core.has_unfinished(); ++step) {
    while (arrived < prompts.size() && step >= static_cast<int>(arrived) * steps_between) {
      const Status added = core.add_request(make_request(arrived, prompts[arrived]));
      QUIRE_CHECK(added.ok(), added.error().message);
      ++arrived;
    }
    poison_stale_blocks(core, runner->pool());
    for (const RequestOutput& output : core.step())
      for (const SampledRow& row : output.tokens)
        run.outputs[static_cast<std::size_t>(index(output.request))].push_back(row.token);
    core.check_integrity();
  }
  for (const BlockView& block : core.snapshot().blocks)
    QUIRE_CHECK(block.ref_count == 0, block.ref_count);
  run.logits = std::move(recorder.logits);
  run.counters = core.counters();
  return run;
}

ScheduleRun run_alone(FlatModel& model, const std::vector<TestPrompt>& prompts) {
  ScheduleRun run;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto runner = ModelRunner::create(model, kContext / kBlockSize, kBlockSize, kContext).value();
    runner->pool().poison();
    RecordingRunner recorder(*runner);
    const auto request = make_request(i, prompts[i]);
    std::vector<BlockId> blocks;
    for (int b = 0; b < kContext / kBlockSize; ++b) blocks.push_back(BlockId{b});
    while (request->num_output_tokens() < request->params.max_tokens) {
      const int n = request->num_tokens() - request->num_computed_tokens;
      const DirectEntry entry{request.get(), n, blocks};
      run_direct_step(recorder, {&entry, 1}, kBlockSize);
    }
    run.outputs.emplace_back(request->token_ids.begin() + request->num_prompt_tokens,
                             request->token_ids.end());
    run.logits.merge(recorder.logits);
  }
  return run;
}

std::vector<NamedConfig> schedule_configs() {
  EngineConfig base;
  base.block_size = kBlockSize;
  base.max_model_len = kContext;
  base.num_blocks = 64;
  EngineConfig chunks = base;
  chunks.max_num_batched_tokens = 24;
  chunks.long_prefill_token_threshold = 7;
  chunks.max_num_seqs = 4;  // the fifth arrives when the prefix it shares is there to find
  EngineConfig tight = base;
  tight.num_blocks = 12;
  EngineConfig uncached = base;
  uncached.enable_prefix_caching = false;
  uncached.max_num_seqs = 2;
  return {{"small chunks, tight budget", chunks, false},
          {"pool of 12 blocks", tight, true},
          {"no prefix caching, two sequences", uncached, false}};
}

std::vector<NamedConfig> schedule_matrix() {
  std::vector<NamedConfig> cells;
  EngineConfig config;
  config.block_size = kBlockSize;
  config.max_model_len = kContext;
  config.num_swap_blocks = 8;  // fewer than what may have to leave at once
  const auto add = [&](int index) {
    const auto pick = [&index](auto... values) {
      const std::array choices{values...};
      const auto chosen = choices[static_cast<std::size_t>(index) % choices.size()];
      index /= static_cast<int>(choices.size());
      return chosen;
    };
    config.max_num_batched_tokens = pick(24, 2048);
    config.num_blocks = pick(64, 12);
    config.max_num_seqs = pick(2, 64);
    config.preemption_mode = pick(PreemptionMode::kRecompute, PreemptionMode::kSwap);
    const int prefix = pick(0, 1, 2);
    config.enable_prefix_caching = prefix > 0;
    config.prefix_index = prefix == 2 ? PrefixIndexKind::kRadix : PrefixIndexKind::kHash;
    config.policy =
        pick(SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kLpm);
    config.prefill_chunk = PrefillChunkPolicy::resolve(pick(16, 512, 0));
    std::string name;
    for (const ConfigField& field : config_fields(config))
      name += std::string(field.name) + "=" + field.value + " ";
    cells.push_back({name, config, false});
  };
  for (int index = 0; index < 2 * 2 * 2 * 2 * 3 * 3 * 3; ++index) add(index);
  return cells;
}

std::string first_difference(const ScheduleRun& expected, const ScheduleRun& actual) {
  for (std::size_t i = 0; i < expected.outputs.size(); ++i)
    if (expected.outputs[i] != actual.outputs[i])
      return "the output of request " + std::to_string(i) + " differs";
  for (const auto& [key, row] : expected.logits) {
    const auto it = actual.logits.find(key);
    if (it == actual.logits.end() ||
        std::memcmp(row.data(), it->second.data(), row.size() * sizeof(float)) != 0)
      return "the logits of request " + std::to_string(index(key.first)) + ", output " +
             std::to_string(key.second) + " differ";
  }
  return {};
}

}  // namespace quire::test
