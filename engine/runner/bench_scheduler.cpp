#include "engine/runner/bench_scheduler.h"

#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/cost_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kVocab = 32000;
constexpr int kNumPrefixes = 32, kPrefixTokens = 1024, kNumPriorities = 4;

class Prompts {
 public:
  explicit Prompts(const SchedulerBenchOptions& options) : options_(options) {
    for (int i = 0; i < kNumPrefixes; ++i) prefixes_.push_back(tokens(kPrefixTokens));
  }

  std::unique_ptr<Request> next() {
    const int length = around(options_.prompt_tokens, 10);
    std::vector<TokenId> prompt =
        prefixes_[static_cast<std::size_t>(random_.between(0, kNumPrefixes - 1))];
    prompt.resize(static_cast<std::size_t>(std::min(length - 1, kPrefixTokens)));
    const std::vector<TokenId> own = tokens(length - static_cast<int>(prompt.size()));
    prompt.insert(prompt.end(), own.begin(), own.end());
    SamplingParams params;
    params.ignore_eos = true;
    params.seed = 0;
    params.max_tokens = around(options_.output_tokens, 50);
    auto request = std::make_unique<Request>(RequestId{made_++}, std::move(prompt), params);
    request->priority = random_.between(0, kNumPriorities - 1);
    return request;
  }

 private:
  int around(int value, int percent) {
    return std::max(2, value * random_.between(100 - percent, 100 + percent) / 100);
  }
  std::vector<TokenId> tokens(int count) { return random_tokens(random_, count, kVocab); }

  const SchedulerBenchOptions& options_;
  BenchRandom random_{7};
  std::vector<std::vector<TokenId>> prefixes_;
  std::int64_t made_ = 0;
};

class Collector : public EventSink {
 public:
  void on_step(const std::shared_ptr<const StepRecord>& record) override {
    times_.add(record->times.schedule_us);
    for (const ScheduledWork& work : record->scheduled)
      if (work.kind == WorkKind::kDecode) ++line_.decodes;
    line_.running += record->num_running;
    line_.waiting += record->num_waiting;
    line_.admissions += static_cast<double>(record->admitted.size());
    line_.finishes += static_cast<double>(record->finished.size());
    line_.preemptions += static_cast<double>(record->preempted.size());
    line_.cached_tokens += record->tokens.cached;
    ++line_.steps;
  }

  SchedulerBenchLine line(SchedulingPolicy policy) const {
    SchedulerBenchLine line = line_;
    line.policy = policy;
    line.schedule_p50_us = times_.percentile(0.5);
    line.schedule_p99_us = times_.percentile(0.99);
    line.schedule_mean_us = times_.mean();
    line.schedule_max_us = times_.max();
    for (double* sum : {&line.running, &line.waiting, &line.decodes, &line.admissions,
                        &line.finishes, &line.preemptions, &line.cached_tokens})
      *sum /= std::max(1, line.steps);
    return line;
  }

 private:
  Samples times_;
  SchedulerBenchLine line_;
};

EngineConfig config_for(const SchedulerBenchOptions& options, SchedulingPolicy policy) {
  EngineConfig config;
  config.num_blocks = options.num_blocks;
  config.block_size = kBlockSize;
  config.max_num_seqs = options.num_running;
  config.max_num_batched_tokens = options.num_batched_tokens;
  config.max_model_len = 1 << 20;
  config.max_queue = options.num_waiting + 1;
  config.prefill_chunk = PrefillChunkPolicy::resolve(0);
  config.policy = policy;
  return config;
}

Result<SchedulerBenchLine> run_policy(const SchedulerBenchOptions& options,
                                      SchedulingPolicy policy) {
  const EngineConfig config = config_for(options, policy);
  QUIRE_RETURN_IF_ERROR(validate(config));
  CostRunner runner({}, kVocab, [](RequestId request, int place) {
    return static_cast<TokenId>((index(request) * 31 + place * 7 + 11) % kVocab);
  });
  EngineCore core(config, runner,
                  options.cpu_time ? Clock(bench_thread_clock) : Clock(bench_clock));
  Prompts prompts(options);
  const auto step = [&]() -> Status {
    while (core.num_waiting() < options.num_waiting)
      QUIRE_RETURN_IF_ERROR(core.add_request(prompts.next()));
    core.step();
    return Ok{};
  };
  // Until every seat is taken, and then once more through every request that took one.
  const int fill = options.num_running * options.prompt_tokens / options.num_batched_tokens;
  for (int i = 0; i < 2 * fill + options.output_tokens; ++i) QUIRE_RETURN_IF_ERROR(step());
  Collector collector;
  core.add_sink(&collector);
  for (int i = 0; i < options.steps; ++i) QUIRE_RETURN_IF_ERROR(step());
  core.remove_sink(&collector);
  return collector.line(policy);
}

}  // namespace

Result<std::vector<SchedulerBenchLine>> run_scheduler_bench(const SchedulerBenchOptions& options) {
  if (options.steps < 1 || options.num_running < 1 || options.num_waiting < 1 ||
      options.prompt_tokens < 2 || options.output_tokens < 2 || options.num_batched_tokens < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs steps, requests and lengths above zero.");
  std::vector<SchedulerBenchLine> lines;
  for (const SchedulingPolicy policy :
       {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kLpm}) {
    QUIRE_TRY(const SchedulerBenchLine line, run_policy(options, policy));
    lines.push_back(line);
  }
  return lines;
}

}  // namespace quire
