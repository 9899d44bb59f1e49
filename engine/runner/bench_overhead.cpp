#include "engine/runner/bench_overhead.h"

#include <algorithm>
#include <future>
#include <string>

#include "engine/engine.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/model_runner.h"
#include "engine/text/text_output.h"
#include "engine/trace/samples.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kMaxStreams = 1024, kMaxPrompt = 1024, kMaxSteps = 100'000;
constexpr int kWarmSteps = 4;  // decoded before the ones that count

// Touched by the engine's thread until it ends.
class Collector : public EventSink {
 public:
  void on_step(const std::shared_ptr<const StepRecord>& record) override {
    records_.push_back(record);
  }
  const std::vector<std::shared_ptr<const StepRecord>>& records() const { return records_; }

 private:
  std::vector<std::shared_ptr<const StepRecord>> records_;
};

// Reads what a client would be sent.
class Listener : public RequestSink {
 public:
  bool on_update(const GenerationUpdate& update) override {
    num_bytes_ += update.text.size();
    if (update.state == GenerationState::kFinished) finished_.set_value(update.finish_reason);
    return true;
  }
  std::future<FinishReason> finished() { return finished_.get_future(); }

 private:
  std::size_t num_bytes_ = 0;
  std::promise<FinishReason> finished_;
};

SamplingParams params_of(bool sampled, int max_tokens, std::uint64_t seed) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.ignore_eos = true;
  params.seed = seed;
  params.temperature = sampled ? 0.8f : 0.0f;
  if (sampled) {
    params.top_p = 0.95f;
    params.top_k = 40;
  }
  return params;
}

bool decodes_only(const StepRecord& record, int streams) {
  return record.outcome == StepOutcome::kCompleted && record.finished.empty() &&
         static_cast<int>(record.scheduled.size()) == streams &&
         std::ranges::all_of(record.scheduled, [](const ScheduledWork& work) {
           return work.kind == WorkKind::kDecode;
         });
}

double median_of(const std::vector<StepCost>& costs,
                 const std::function<double(const StepCost&)>& part) {
  Samples samples;
  for (const StepCost& cost : costs) samples.add(part(cost));
  return samples.percentile(0.5);
}

OverheadBenchLine summarise(const std::vector<StepCost>& costs) {
  OverheadBenchLine line;
  line.steps = static_cast<int>(costs.size());
  for (double StepCost::*part : {&StepCost::schedule, &StepCost::prepare, &StepCost::forward,
                                 &StepCost::sample, &StepCost::update, &StepCost::publish})
    line.cost.*part = median_of(costs, [part](const StepCost& cost) { return cost.*part; });
  line.step_us = median_of(costs, [](const StepCost& cost) { return cost.total(); });
  line.overhead = median_of(costs, [](const StepCost& cost) { return cost.overhead(); });
  return line;
}

class OverheadBench {
 public:
  OverheadBench(FlatModel& model, const Tokenizer& tokenizer, const OverheadBenchOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  Result<OverheadBenchLine> run(int streams, bool sampled) {
    auto collector = std::make_shared<Collector>();
    QUIRE_RETURN_IF_ERROR(serve(streams, sampled, collector));
    std::vector<StepCost> costs = decode_step_costs(collector->records(), streams);
    costs.erase(costs.begin(), costs.begin() + std::min<std::ptrdiff_t>(kWarmSteps, costs.size()));
    OverheadBenchLine line = summarise(costs);
    line.streams = streams;
    line.sampled = sampled;
    return line;
  }

 private:
  // The first token comes with the prompt, and the last two steps do not count.
  int output_tokens() const { return options_.steps + kWarmSteps + 3; }

  Status serve(int streams, bool sampled, const std::shared_ptr<Collector>& collector) {
    const int context = options_.prompt_tokens + output_tokens();
    EngineConfig config;
    config.block_size = kBlockSize;
    config.num_blocks = streams * (context / kBlockSize + 1);
    config.max_num_seqs = streams;
    // All prompts in one step, so that all streams decode and end together.
    config.max_num_batched_tokens = streams * options_.prompt_tokens;
    config.prefill_chunk = {config.max_num_batched_tokens, config.max_num_batched_tokens};
    config.max_queue = streams;
    config.max_model_len = model_.config().context_length;
    QUIRE_TRY(auto runner, ModelRunner::create(model_, config.num_blocks, kBlockSize,
                                               config.max_num_batched_tokens));
    const auto engine = Engine::create({.config = config, .start_paused = true}, std::move(runner),
                                       std::make_unique<TextOutputProcessor>(tokenizer_));
    engine->add_sink(collector);
    BenchRandom random(9);
    std::vector<std::future<FinishReason>> endings;
    for (int i = 0; i < streams; ++i) {
      auto listener = std::make_shared<Listener>();
      endings.push_back(listener->finished());
      GenerationRequest request;
      request.prompt_token_ids =
          random_tokens(random, options_.prompt_tokens, model_.config().vocab_size);
      request.params = params_of(sampled, output_tokens(), static_cast<std::uint64_t>(i));
      QUIRE_TRY(const RequestId id, engine->submit(std::move(request), std::move(listener)));
      static_cast<void>(id);
    }
    engine->resume();
    for (auto& ending : endings)
      if (ending.get() != FinishReason::kLength)
        return make_error(ErrorCode::kDeviceFailure, "A stream ended before its last token.");
    return Ok{};
  }

  FlatModel& model_;
  const Tokenizer& tokenizer_;
  const OverheadBenchOptions options_;
};

}  // namespace

std::vector<StepCost> decode_step_costs(
    const std::vector<std::shared_ptr<const StepRecord>>& records, int streams) {
  std::vector<StepCost> costs;
  for (std::size_t i = 0; i + 1 < records.size(); ++i) {
    if (!decodes_only(*records[i], streams) || !decodes_only(*records[i + 1], streams)) continue;
    const StepTimes& times = records[i]->times;
    StepCost cost{times.schedule_us, times.prepare_us, times.forward_us,
                  times.sample_us,   times.update_us,  0};
    cost.publish = (records[i + 1]->times.start_s - times.start_s) * 1e6 - cost.total();
    costs.push_back(cost);
  }
  return costs;
}

Status run_overhead_bench(FlatModel& model, const Tokenizer& tokenizer,
                          const OverheadBenchOptions& options,
                          const std::function<void(const OverheadBenchLine&)>& done) {
  if (options.parallel.empty() || options.steps < 1 || options.steps > kMaxSteps ||
      options.prompt_tokens < 1 || options.prompt_tokens > kMaxPrompt ||
      std::ranges::any_of(options.parallel,
                          [](int streams) { return streams < 1 || streams > kMaxStreams; }))
    return make_error(
        ErrorCode::kInvalidArgument,
        "The bench needs 1 to 1024 streams, prompts of 1 to 1024 tokens and 1 to 100000 "
        "steps.");
  OverheadBench bench(model, tokenizer, options);
  for (const int streams : options.parallel)
    for (const bool sampled : {false, true}) {
      QUIRE_TRY(const OverheadBenchLine line, bench.run(streams, sampled));
      done(line);
    }
  return Ok{};
}

}  // namespace quire
