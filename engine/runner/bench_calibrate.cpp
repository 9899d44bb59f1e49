#include "engine/runner/bench_calibrate.h"

#include <algorithm>
#include <cmath>

#include "engine/runner/bench_clock.h"
#include "engine/runner/direct_step.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kNumStreams = 8, kLargestPiece = 512;
constexpr int kPieces[] = {16, 128, 32, 512, 64, 256};

// Requests with blocks of their own, stepped by hand.
class Calibrator {
 public:
  Calibrator(Runner& runner, int context, int repeats)
      : runner_(runner), context_(context), repeats_(repeats) {
    for (int i = 0; i < kNumStreams; ++i) add_request(context * (i + 1) / kNumStreams);
    add_request(context);  // the prompt that is admitted while others decode
  }

  // Most tokens a stream decodes behind its prompt.
  static int decoded(int context, int repeats) { return repeats * (8 + context / 64); }
  static int blocks_each(int context, int repeats) {
    return (context + decoded(context, repeats)) / kBlockSize + 1;
  }
  static int num_blocks(int context, int repeats) {
    return (kNumStreams + 1) * blocks_each(context, repeats);
  }

  Calibration run() {
    warm_up();
    prefill_streams();
    decode_streams();
    admit_beside_streams();
    return result();
  }

 private:
  struct Measured {
    StepShape shape;
    double ms = 0;
  };
  void add_request(int prompt_tokens) {
    std::vector<TokenId> prompt(static_cast<std::size_t>(std::max(1, prompt_tokens)));
    for (std::size_t i = 0; i < prompt.size(); ++i)
      prompt[i] = static_cast<TokenId>((i * 7919 + 13) % runner_.vocab_size());
    SamplingParams params;
    params.temperature = 0;
    params.seed = 0;
    const auto id = static_cast<std::int64_t>(requests_.size());
    requests_.push_back(std::make_unique<Request>(RequestId{id}, std::move(prompt), params));
    std::vector<BlockId> table;
    const int count = blocks_each(context_, repeats_);
    for (int b = 0; b < count; ++b)
      table.push_back(BlockId{static_cast<std::int32_t>(id) * count + b});
    tables_.push_back(std::move(table));
  }

  DirectEntry entry(int request, int num_tokens) {
    return {requests_[request].get(), num_tokens, tables_[request]};
  }

  static StepShape shape_of(const std::vector<DirectEntry>& entries) {
    StepShape shape;
    for (const DirectEntry& entry : entries) {
      const std::int64_t n = entry.num_tokens, computed = entry.request->num_computed_tokens;
      const std::int64_t keys = n * computed + n * (n + 1) / 2;
      const bool decodes = entry.request->decoding();
      (decodes ? shape.decode_tokens : shape.prefill_tokens) += entry.num_tokens;
      (decodes ? shape.decode_context : shape.prefill_pairs) += keys;
      if (computed + n == entry.request->num_tokens()) ++shape.num_samples;
    }
    return shape;
  }

  void step(const std::vector<DirectEntry>& entries) {
    const StepShape shape = shape_of(entries);
    const double start = bench_clock();
    run_direct_step(runner_, entries, kBlockSize);
    measured_.push_back({shape, (bench_clock() - start) * 1e3});
  }

  // Caches and page tables; not counted.
  void warm_up() {
    Request& request = *requests_.front();
    for (int i = 0; i < 3; ++i) {
      step({entry(0, std::min(32, request.num_tokens()))});
      request.token_ids.resize(static_cast<std::size_t>(request.num_prompt_tokens));
      request.num_computed_tokens = 0;
    }
    measured_.clear();
  }

  int next_piece(const Request& request) {
    const int left = request.num_prompt_tokens - request.num_computed_tokens;
    return std::min(left, kPieces[pieces_++ % std::size(kPieces)]);
  }

  void prefill_streams() {
    for (int i = 0; i < kNumStreams; ++i)
      while (requests_[i]->num_output_tokens() == 0) step({entry(i, next_piece(*requests_[i]))});
  }

  std::vector<DirectEntry> decodes(int first, int count) {
    std::vector<DirectEntry> entries;
    for (int i = 0; i < count; ++i) entries.push_back(entry(first + i, 1));
    return entries;
  }

  void decode_streams() {
    for (int repeat = 0; repeat < repeats_; ++repeat)
      for (const int count : {1, 2, 4, 8})
        for (int first = 0; first + count <= kNumStreams; first += count)
          step(decodes(first, count));
  }

  void admit_beside_streams() {
    Request& prompt = *requests_.back();
    for (int repeat = 0; repeat < repeats_; ++repeat) {
      prompt.num_computed_tokens = 0;
      prompt.token_ids.resize(static_cast<std::size_t>(prompt.num_prompt_tokens));
      for (int count = 1; prompt.num_output_tokens() == 0; count = count % kNumStreams + 1) {
        auto entries = decodes(0, count);
        entries.push_back(entry(kNumStreams, next_piece(prompt)));
        step(entries);
      }
    }
  }

  Calibration result() const {
    StepTimeFitter fitter(1e12);  // forgets nothing
    for (const Measured& step : measured_) fitter.observe(step.shape, step.ms);
    Calibration calibration;
    calibration.costs.step_time = fitter.fit();
    calibration.steps = static_cast<int>(measured_.size());
    Samples errors;
    for (const Measured& step : measured_)
      errors.add(std::abs(calibration.costs.step_time.predict_ms(step.shape) - step.ms) / step.ms);
    calibration.error_mean = errors.mean();
    calibration.error_p95 = errors.percentile(0.95);
    return calibration;
  }

  Runner& runner_;
  const int context_, repeats_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<std::vector<BlockId>> tables_;
  std::size_t pieces_ = 0;
  std::vector<Measured> measured_;
};

}  // namespace

Result<Calibration> calibrate(FlatModel& model, const CalibrateOptions& options) {
  if (options.context < kNumStreams || options.repeats < 1 || options.repeats > 1000)
    return make_error(ErrorCode::kInvalidArgument,
                      "Calibrating needs a context of at least 8 tokens and 1 to 1000 repeats.");
  const int room = model.config().context_length;
  const int context = std::min(options.context, room / 2);
  if (context < kNumStreams || context + Calibrator::decoded(context, options.repeats) > room)
    return make_error(ErrorCode::kInvalidArgument, "The model's context of " +
                                                       std::to_string(room) +
                                                       " tokens is too short for so many repeats.");
  QUIRE_TRY(auto runner,
            ModelRunner::create(model, Calibrator::num_blocks(context, options.repeats), kBlockSize,
                                kLargestPiece + kNumStreams));
  return Calibrator(*runner, context, options.repeats).run();
}

}  // namespace quire
