#include "engine/runner/bench_multiturn.h"

#include <algorithm>

#include "engine/core/engine_core.h"
#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kTokenBudget = 512;
constexpr double kPoolParts[] = {0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 1.2};

int last_tokens(const MultiturnBenchOptions& o) {
  return o.system_tokens + o.turns * (o.user_tokens + o.answer_tokens);
}

class Conversations {
 public:
  Conversations(Runner& runner, const EngineConfig& config, const MultiturnBenchOptions& options)
      : options_(options), vocab_size_(runner.vocab_size()), core_(config, runner, bench_clock) {
    const auto system = random_tokens(random_, options.system_tokens, vocab_size_);
    histories_.assign(static_cast<std::size_t>(options.users), system);
  }

  Result<MultiturnBenchLine> run() {
    const double start = bench_clock();
    for (int turn = 0; turn < options_.turns; ++turn) QUIRE_RETURN_IF_ERROR(take_turn(turn));
    const EngineCounters& counters = core_.counters();
    const ServingReport report = metrics_.report(counters);
    MultiturnBenchLine line;
    line.num_blocks = core_.config().num_blocks;
    line.hit_rate = report.hit_rate;
    line.ttft_p50_ms = report.ttft_p50;
    line.ttft_p99_ms = report.ttft_p99;
    line.computed_prompt_tokens = counters.prefix_cache_queries - counters.prefix_cache_hits;
    line.evictions = counters.evictions;
    line.total_s = bench_clock() - start;
    return line;
  }

 private:
  Status take_turn(int turn) {
    for (int user = 0; user < options_.users; ++user) {
      auto& history = histories_[static_cast<std::size_t>(user)];
      const auto said = random_tokens(random_, options_.user_tokens, vocab_size_);
      history.insert(history.end(), said.begin(), said.end());
      const std::int64_t id = static_cast<std::int64_t>(turn) * options_.users + user;
      metrics_.arrived(RequestId{id}, bench_clock());
      QUIRE_RETURN_IF_ERROR(core_.add_request(greedy_request(id, history, options_.answer_tokens)));
    }
    while (core_.has_unfinished()) step();
    return Ok{};
  }

  void step() {
    const auto outputs = core_.step();
    const double now = bench_clock();
    for (const RequestOutput& output : outputs) {
      metrics_.produced(output.request, static_cast<int>(output.tokens.size()), now);
      auto& history = histories_[static_cast<std::size_t>(index(output.request) % options_.users)];
      for (const SampledRow& row : output.tokens) history.push_back(row.token);
      if (output.finish_reason != FinishReason::kNone) metrics_.ended(output.request, true);
    }
  }

  const MultiturnBenchOptions options_;
  const int vocab_size_;
  BenchRandom random_{17};
  EngineCore core_;
  ServingMetrics metrics_;
  std::vector<std::vector<TokenId>> histories_;
};

}  // namespace

Result<std::vector<MultiturnBenchLine>> run_multiturn_bench(FlatModel& model,
                                                            const MultiturnBenchOptions& o) {
  if (o.users < 1 || o.turns < 1 || o.users > 10'000 || o.turns > 1000 || o.system_tokens < 0 ||
      o.user_tokens < 1 || o.answer_tokens < 1 || o.max_num_seqs < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs users, turns and lengths above zero.");
  const int context = model.config().context_length;
  if (last_tokens(o) > context)
    return make_error(ErrorCode::kInvalidArgument,
                      "The conversations grow beyond the model's context of " +
                          std::to_string(context) + " tokens.");
  const int each = (last_tokens(o) + kBlockSize - 1) / kBlockSize;
  std::vector<MultiturnBenchLine> lines;
  for (const double part : kPoolParts) {
    EngineConfig config;
    config.num_blocks = std::max(each, static_cast<int>(part * each * o.users));
    config.block_size = kBlockSize;
    config.max_num_seqs = o.max_num_seqs;
    config.max_num_batched_tokens = kTokenBudget;
    config.max_model_len = context;
    config.max_queue = o.users;
    config.prefix_index = o.index;
    QUIRE_TRY(auto runner, ModelRunner::create(model, config.num_blocks, kBlockSize, kTokenBudget));
    QUIRE_TRY(MultiturnBenchLine line, Conversations(*runner, config, o).run());
    line.pool_part = part;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace quire
