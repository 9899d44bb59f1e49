#include "engine/runner/bench_model.h"

#include <algorithm>
#include <string>

#include "engine/runner/bench_clock.h"
#include "engine/runner/direct_step.h"
#include "engine/runner/model_runner.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kMaxRounds = 1000, kDepthChunk = 512;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// One request alone in the pool.
class Stream {
 public:
  Stream(Runner& runner, int num_blocks, int vocab_size)
      : runner_(runner), vocab_size_(vocab_size) {
    for (int i = 0; i < num_blocks; ++i) blocks_.push_back(BlockId{i});
  }

  // A new request of `tokens` prompt tokens, the first `depth` of which are computed untimed.
  void begin(int depth, int tokens) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < depth + tokens; ++i)
      prompt.push_back(static_cast<TokenId>((i * 7919LL + 13) % vocab_size_));
    SamplingParams params;
    params.temperature = 0;
    params.seed = 0;
    request_ = std::make_unique<Request>(RequestId{0}, std::move(prompt), params);
    for (int done = 0; done < depth; done = request_->num_computed_tokens)
      advance(std::min(kDepthChunk, depth - done));
  }
  void advance(int n) {
    const DirectEntry entry{request_.get(), n, blocks_};
    run_direct_step(runner_, {&entry, 1}, kBlockSize);
  }

 private:
  Runner& runner_;
  int vocab_size_;
  std::vector<BlockId> blocks_;
  std::unique_ptr<Request> request_;
};

Status check(const ModelBenchOptions& o, int context_length) {
  const int longest = std::max(o.prefill_tokens, o.decode_tokens + 1);
  if (o.prefill_tokens < 1 || o.decode_tokens < 1 || o.depth < 0 || o.rounds < 1 ||
      o.rounds > kMaxRounds)
    return make_error(ErrorCode::kInvalidArgument,
                      "A bench needs at least one token and between 1 and 1000 rounds.");
  if (longest > context_length || o.depth > context_length - longest)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs more tokens than the model's "
                      "context of " +
                          std::to_string(context_length) + ".");
  return Ok{};
}

}  // namespace

Result<ModelBenchResult> run_model_bench(FlatModel& model, const ModelBenchOptions& o) {
  QUIRE_RETURN_IF_ERROR(check(o, model.config().context_length));
  const int most_tokens = o.depth + std::max(o.prefill_tokens, o.decode_tokens + 1);
  const int num_blocks = (most_tokens + kBlockSize - 1) / kBlockSize;
  QUIRE_TRY(auto runner, ModelRunner::create(model, num_blocks, kBlockSize,
                                             std::max(o.prefill_tokens, kDepthChunk)));
  Stream stream(*runner, num_blocks, model.config().vocab_size);
  ModelBenchResult result;
  for (int round = 0; round <= o.rounds; ++round) {
    stream.begin(o.depth, o.prefill_tokens);
    const double prefill_start = bench_clock();
    stream.advance(o.prefill_tokens);
    const double prefill_s = bench_clock() - prefill_start;

    stream.begin(o.depth, 1);
    const double decode_start = bench_clock();
    for (int i = 0; i < o.decode_tokens; ++i) stream.advance(1);
    const double decode_s = bench_clock() - decode_start;
    if (round == 0) continue;  // warms caches and page tables
    result.prefill_rounds_tok_s.push_back(o.prefill_tokens / prefill_s);
    result.decode_rounds_tok_s.push_back(o.decode_tokens / decode_s);
  }
  result.prefill_tok_s = median(result.prefill_rounds_tok_s);
  result.decode_tok_s = median(result.decode_rounds_tok_s);
  return result;
}

}  // namespace quire
