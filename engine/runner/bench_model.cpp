#include "engine/runner/bench_model.h"

#include <algorithm>

#include "engine/core/engine_core.h"
#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_model_sizes.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/model_runner.h"

namespace quire {
namespace {

constexpr std::uint64_t kContextSeed = 1, kPromptSeed = 1 << 20, kPrefixSeed = 1 << 21;

class ModelBench {
 public:
  ModelBench(Runner& runner, const EngineConfig& config, const ModelBenchOptions& options,
             const BeforeRound& before, const AfterRound& after)
      : runner_(runner), config_(config), options_(options), before_(before), after_(after) {}

  Result<std::vector<ModelBenchSeries>> run() {
    QUIRE_RETURN_IF_ERROR(warm_up());
    for (const int tokens : options_.prompts) QUIRE_RETURN_IF_ERROR(prefill(tokens));
    start_core();
    for (const int depth : options_.depths)
      QUIRE_RETURN_IF_ERROR(decode(ModelBenchKind::kDecode, depth, 1, depth));
    start_core();
    for (const int streams : options_.parallel)
      QUIRE_RETURN_IF_ERROR(
          decode(ModelBenchKind::kParallel, streams, streams, options_.parallel_depth));
    if (options_.shared_prefix > 0)
      for (const int requests : options_.shared_requests)
        QUIRE_RETURN_IF_ERROR(shared_prefix(requests));
    return std::move(series_);
  }

 private:
  // An engine whose cache is empty.
  void start_core() {
    core_ = std::make_unique<EngineCore>(config_, runner_, bench_clock);
    next_id_ = 0;
  }

  Status add(std::vector<TokenId> prompt, int max_tokens) {
    return core_->add_request(greedy_request(next_id_++, std::move(prompt), max_tokens));
  }

  std::vector<TokenId> tokens(std::uint64_t seed, int count) const {
    BenchRandom random(seed);
    return random_tokens(random, count, runner_.vocab_size());
  }

  // Runs from its making to `stop`.
  struct Stopwatch {
    double cpu_seconds = -bench_cpu_clock(), seconds = -bench_clock();
    void stop() {
      seconds += bench_clock();
      cpu_seconds += bench_cpu_clock();
    }
  };

  // What a stretch of steps did.
  struct Stretch {
    int steps = 0, output_tokens = 0, cached_tokens = 0, prompt_tokens = 0;
  };

  void step(Stretch& stretch) {
    ++stretch.steps;
    for (const RequestOutput& output : core_->step()) {
      stretch.output_tokens += static_cast<int>(output.tokens.size());
      if (output.num_output_tokens != 1 || output.tokens.empty()) continue;  // not its first token
      stretch.cached_tokens += output.num_cached_tokens;
      stretch.prompt_tokens += output.num_prompt_tokens;
    }
  }

  void finish_all(Stretch& stretch) {
    while (core_->has_unfinished()) step(stretch);
  }

  Status begin_round() {
    if (before_ && !before_()) return make_error(ErrorCode::kCancelled, "The bench was ended.");
    return Ok{};
  }

  // Pages, caches and the workers' first wake; not counted.
  Status warm_up() {
    start_core();
    QUIRE_RETURN_IF_ERROR(add(tokens(kPromptSeed, kBenchWarmUpPrompt), kBenchWarmUpOutput));
    Stretch ignored;
    finish_all(ignored);
    return Ok{};
  }

  ModelBenchSeries& new_series(ModelBenchKind kind, int size, int depth) {
    return series_.emplace_back(ModelBenchSeries{
        .kind = kind, .size = size, .depth = depth, .seconds = {}, .cpu_seconds = {}});
  }

  void end_round(ModelBenchSeries& series, const Stretch& done, const Stopwatch& time) {
    series.steps = done.steps;
    series.cached_tokens = done.cached_tokens;
    series.prompt_tokens = done.prompt_tokens;
    series.tokens = series.kind == ModelBenchKind::kPrefill
                        ? done.prompt_tokens - done.cached_tokens
                        : done.output_tokens;
    series.seconds.push_back(time.seconds);
    series.cpu_seconds.push_back(time.cpu_seconds);
    if (after_) after_(series);
  }

  Status prefill(int count) {
    ModelBenchSeries& series = new_series(ModelBenchKind::kPrefill, count, 0);
    for (int round = 0; round < options_.rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(begin_round());
      start_core();
      auto prompt = tokens(kPromptSeed + static_cast<std::uint64_t>(round), count);
      Stretch done;
      Stopwatch time;
      QUIRE_RETURN_IF_ERROR(add(std::move(prompt), 1));
      finish_all(done);
      time.stop();
      end_round(series, done, time);
    }
    return Ok{};
  }

  std::vector<TokenId> context(int stream, int depth) const {
    return tokens(kContextSeed + static_cast<std::uint64_t>(stream), std::max(1, depth));
  }

  // Leaves the contexts of streams [0, count) in the prefix cache. One after another: a step that
  // computes one must not make others decode.
  Status fill(int count, int depth) {
    Stretch ignored;
    for (int i = 0; i < count; ++i) {
      QUIRE_RETURN_IF_ERROR(add(context(i, depth), 1));
      finish_all(ignored);
    }
    return Ok{};
  }

  Status decode(ModelBenchKind kind, int size, int count, int depth) {
    ModelBenchSeries& series = new_series(kind, size, depth);
    for (int round = 0; round < options_.rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(begin_round());
      if (round == 0) QUIRE_RETURN_IF_ERROR(fill(count, depth));
      const std::int64_t first = next_id_;
      for (int i = 0; i < count; ++i)
        QUIRE_RETURN_IF_ERROR(
            add(context(i, depth), options_.decode_tokens + bench_lead_tokens(count)));
      Stretch lead, done;
      while (lead.prompt_tokens < count * std::max(1, depth)) step(lead);
      Stopwatch time;
      for (int i = 0; i < options_.decode_tokens; ++i) step(done);
      time.stop();
      done.cached_tokens = lead.cached_tokens;
      done.prompt_tokens = lead.prompt_tokens;
      for (std::int64_t id = first; id < next_id_; ++id) core_->abort_request(RequestId{id});
      end_round(series, done, time);
    }
    return Ok{};
  }

  Status shared_prefix(int requests) {
    ModelBenchSeries& series = new_series(ModelBenchKind::kSharedPrefix, requests, 0);
    for (int round = 0; round < options_.rounds; ++round) {
      QUIRE_RETURN_IF_ERROR(begin_round());
      start_core();
      const auto seed = kPrefixSeed + static_cast<std::uint64_t>(round) * (kMaxBenchStreams + 1);
      std::vector<std::vector<TokenId>> prompts;
      for (int i = 0; i < requests; ++i) {
        prompts.push_back(tokens(seed, options_.shared_prefix));
        const auto own = tokens(seed + 1 + static_cast<std::uint64_t>(i), kSharedOwnTokens);
        prompts.back().insert(prompts.back().end(), own.begin(), own.end());
      }
      Stretch done;
      Stopwatch time;
      for (auto& prompt : prompts)
        QUIRE_RETURN_IF_ERROR(add(std::move(prompt), kSharedOutputTokens));
      finish_all(done);
      time.stop();
      end_round(series, done, time);
    }
    return Ok{};
  }

  Runner& runner_;
  const EngineConfig config_;
  const ModelBenchOptions& options_;
  const BeforeRound& before_;
  const AfterRound& after_;
  std::unique_ptr<EngineCore> core_;
  std::int64_t next_id_ = 0;
  std::vector<ModelBenchSeries> series_;
};

}  // namespace

Spread spread(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Spread rate(const ModelBenchSeries& series) {
  std::vector<double> rates;
  for (const double seconds : series.seconds) rates.push_back(series.tokens / seconds);
  return spread(std::move(rates));
}

double seconds_per_step(const ModelBenchSeries& series) {
  return spread(series.seconds).median / series.steps;
}

std::optional<double> seconds_per_context_token(const std::vector<ModelBenchSeries>& all) {
  double count = 0, x_sum = 0, y_sum = 0, xx_sum = 0, xy_sum = 0;
  for (const ModelBenchSeries& series : all) {
    if (series.kind != ModelBenchKind::kDecode) continue;
    const double x = std::max(1, series.depth), y = seconds_per_step(series);
    count += 1;
    x_sum += x;
    y_sum += y;
    xx_sum += x * x;
    xy_sum += x * y;
  }
  const double spread_of_x = count * xx_sum - x_sum * x_sum;
  if (spread_of_x <= 0) return std::nullopt;
  return (count * xy_sum - x_sum * y_sum) / spread_of_x;
}

Result<std::vector<ModelBenchSeries>> run_model_bench(FlatModel& model, const ModelBenchOptions& o,
                                                      const BeforeRound& before,
                                                      const AfterRound& after) {
  const int context = model.config().context_length;
  QUIRE_RETURN_IF_ERROR(check_model_bench(o, context));
  const ModelBenchNeeds needs = model_bench_needs(o);
  EngineConfig config;
  config.num_blocks = needs.blocks;
  config.block_size = kBenchBlockSize;
  config.max_num_seqs = std::max(config.max_num_seqs, needs.streams);
  config.max_queue = std::max(config.max_queue, needs.streams);
  config.max_model_len = context;
  QUIRE_RETURN_IF_ERROR(validate(config));
  QUIRE_TRY(auto runner, ModelRunner::create(model, config.num_blocks, kBenchBlockSize,
                                             config.max_num_batched_tokens));
  return ModelBench(*runner, config, o, before, after).run();
}

}  // namespace quire
