#include "tests/core/harness.h"

namespace quire::test {

EngineConfig small_config(int num_blocks, int block_size) {
  EngineConfig config;
  config.num_blocks = num_blocks;
  config.block_size = block_size;
  config.max_model_len = 100000;
  return config;
}

std::vector<TokenId> prompt_of(int length, int first, int vocab_size) {
  std::vector<TokenId> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back((first + 7 * i + i * i) % vocab_size);
  return prompt;
}

RequestId id_of(std::int64_t value) {
  return RequestId{value};
}

Harness::Harness(EngineConfig config, OutputProcessor* processor)
    : runner(config.num_blocks, config.block_size, 101, config.num_swap_blocks),
      core(
          config, runner, [this] { return time_ += 0.001; }, processor) {
  core.add_sink(&sink);
}

Status Harness::add(std::int64_t id, std::vector<TokenId> prompt, SamplingParams params,
                    std::string cache_key, std::vector<TokenId> eos) {
  auto request = std::make_unique<Request>(id_of(id), std::move(prompt), std::move(params));
  request->cache_key = std::move(cache_key);
  request->eos_token_ids = std::move(eos);
  request->priority = next_priority;
  Status added = core.add_request(std::move(request));
  if (added.ok())
    expected_[id] =
        answer_alone(*core.find(id_of(id)), runner.vocab_size(), core.config().effective_context());
  return added;
}

Status Harness::add(std::int64_t id, int prompt_length, int max_tokens, int first) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return add(id, prompt_of(prompt_length, first), params);
}

std::vector<RequestOutput> Harness::step() {
  auto outputs = core.step();
  core.check_integrity();
  for (const RequestOutput& output : outputs) {
    const std::int64_t id = index(output.request);
    for (const SampledRow& row : output.tokens) answers[id].push_back(row.token);
    texts[id] += output.text;
    if (output.finish_reason != FinishReason::kNone)
      ended[id] = {output.finish_reason, output.stop_reason};
  }
  const EngineSnapshot snapshot = core.snapshot();
  for (std::size_t b = 0; b < snapshot.blocks.size(); ++b)
    if (snapshot.blocks[b].ref_count == 0 && !snapshot.blocks[b].hashed)
      runner.poison(BlockId{static_cast<std::int32_t>(b)});
  return outputs;
}

bool Harness::run(int limit) {
  for (int i = 0; i < limit && core.has_unfinished(); ++i) step();
  return !core.has_unfinished();
}

bool Harness::all_blocks_free() const {
  for (const BlockView& block : core.snapshot().blocks)
    if (block.ref_count != 0) return false;
  return true;
}

bool Harness::answers_match() const {
  for (const auto& [id, end] : ended) {
    if (end.reason != FinishReason::kStop && end.reason != FinishReason::kLength) continue;
    const auto answer = answers.find(id);
    const std::vector<TokenId> given =
        answer == answers.end() ? std::vector<TokenId>() : answer->second;
    if (given != expected_.at(id)) return false;
  }
  return runner.poisoned_reads == 0;
}

std::string plan_text(const StepRecord& record) {
  static const char* const kKinds[] = {"prefill", "decode", "recompute", "verify"};
  std::string text;
  const auto part = [&](const std::string& piece) { text += (text.empty() ? "" : " | ") + piece; };
  const auto name = [](RequestId id) { return std::to_string(index(id)); };
  for (const ScheduledWork& work : record.scheduled)
    part(name(work.request) + ":" + kKinds[static_cast<int>(work.kind)] + " " +
         std::to_string(work.num_tokens) +
         (work.num_cached_tokens > 0 ? " cached " + std::to_string(work.num_cached_tokens) : ""));
  for (const Preemption& preemption : record.preempted)
    part("preempt " + name(preemption.victim) + " for " + name(preemption.for_request));
  for (const RequestId id : record.admitted) part("admit " + name(id));
  return text;
}

}  // namespace quire::test
