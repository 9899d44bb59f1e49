#include "engine/runner/bench_admission.h"

#include "engine/core/engine_core.h"
#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/model_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16;
constexpr int kAdmittedTokens = 2;  // output of the admitted request

struct Arm {
  std::string name;
  PrefillChunkPolicy chunk;
  double max_itl_ms = 0;
  bool beside = true, alone = true;
};

class AdmissionBench {
 public:
  AdmissionBench(Runner& runner, const EngineConfig& config, const AdmissionBenchOptions& options)
      : runner_(runner), config_(config), options_(options) {
    BenchRandom random(5);
    for (int i = 0; i < options.streams; ++i)
      stream_prompts_.push_back(random_tokens(random, options.stream_prompt, runner.vocab_size()));
    prompt_ = random_tokens(random, options.prompt_tokens, runner.vocab_size());
  }

  Result<AdmissionBenchLine> run(const Arm& arm) {
    AdmissionBenchLine line;
    line.arm = arm.name;
    line.max_itl_ms = arm.max_itl_ms;
    if (arm.beside) QUIRE_RETURN_IF_ERROR(beside_streams(arm, line));
    if (arm.alone) QUIRE_RETURN_IF_ERROR(alone(arm, line));
    return line;
  }

 private:
  EngineConfig config_of(const Arm& arm) const {
    EngineConfig config = config_;
    config.prefill_chunk = arm.chunk;
    config.max_itl_ms = arm.max_itl_ms;
    return config;
  }

  // Steps once; adds the time since each stream's previous token.
  void step(EngineCore& core, Samples* pauses) {
    for (const RequestOutput& output : core.step()) {
      if (output.tokens.empty() || index(output.request) >= options_.streams) continue;
      double& last = last_token_s_[static_cast<std::size_t>(index(output.request))];
      const double now = bench_clock();
      if (pauses != nullptr && last > 0) pauses->add((now - last) * 1e3);
      last = now;
    }
  }

  Status beside_streams(const Arm& arm, AdmissionBenchLine& line) {
    EngineCore core(config_of(arm), runner_, bench_clock);
    core.set_decision_source(decisions_.get());
    last_token_s_.assign(static_cast<std::size_t>(options_.streams), 0);
    for (int i = 0; i < options_.streams; ++i)
      QUIRE_RETURN_IF_ERROR(core.add_request(
          greedy_request(i, stream_prompts_[static_cast<std::size_t>(i)], stream_tokens())));
    for (int i = 0; i < kWarmSteps; ++i) step(core, nullptr);
    Samples quiet, busy;
    for (int i = 0; i < options_.quiet_steps; ++i) step(core, &quiet);
    const double start = bench_clock();
    QUIRE_RETURN_IF_ERROR(
        core.add_request(greedy_request(options_.streams, prompt_, kAdmittedTokens)));
    const Request* admitted = core.find(RequestId{options_.streams});
    while (admitted->num_output_tokens() == 0) step(core, &busy);
    line.ttft = (bench_clock() - start) * 1e3;
    line.itl_p95_quiet = quiet.percentile(0.95);
    line.itl_p95_admission = busy.percentile(0.95);
    line.itl_mean_admission = busy.mean();
    return Ok{};
  }

  Status alone(const Arm& arm, AdmissionBenchLine& line) {
    EngineCore core(config_of(arm), runner_, bench_clock);
    core.set_decision_source(decisions_.get());
    const double start = bench_clock();
    QUIRE_RETURN_IF_ERROR(core.add_request(greedy_request(0, prompt_, 1)));
    while (core.has_unfinished()) core.step();
    line.ttft_alone = (bench_clock() - start) * 1e3;
    return Ok{};
  }

 public:
  static constexpr int kWarmSteps = 4;
  // So many that no stream ends before the prompt is through.
  int stream_tokens() const { return config_.max_model_len - options_.stream_prompt; }

 private:
  Runner& runner_;
  const EngineConfig config_;
  const AdmissionBenchOptions options_;
  std::vector<std::vector<TokenId>> stream_prompts_;
  std::vector<TokenId> prompt_;
  std::vector<double> last_token_s_;  // per stream; 0 = none yet
  // One for all arms, as a server that has run for a while has it.
  std::unique_ptr<DecisionSource> decisions_ = make_measured_decisions();
};

// Blocks for the prompt, and for the streams as far as they get: each decodes once a step.
int num_blocks(const AdmissionBenchOptions& o, int stream_context) {
  return (o.prompt_tokens + kAdmittedTokens) / kBlockSize + 1 +
         o.streams * (stream_context / kBlockSize + 1);
}

}  // namespace

Status run_admission_bench(FlatModel& model, const AdmissionBenchOptions& o,
                           const std::function<void(const AdmissionBenchLine&)>& done) {
  const int context = model.config().context_length;
  if (o.streams < 1 || o.rounds < 1 || o.rounds > 1000 || o.quiet_steps < 1 ||
      o.stream_prompt < 1 || o.alone < 1 || o.contended < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs streams, steps, chunks and 1 to 1000 rounds.");
  if (o.prompt_tokens < 1 || o.prompt_tokens + kAdmittedTokens > context)
    return make_error(
        ErrorCode::kInvalidArgument,
        "The prompt does not fit the model's context of " + std::to_string(context) + " tokens.");
  // A stream gets one token a step, and the prompt two or more on average in any arm.
  const int stream_context = std::min(context, o.stream_prompt + AdmissionBench::kWarmSteps +
                                                   o.quiet_steps + o.prompt_tokens / 2 + 64);
  EngineConfig config;
  config.num_blocks = num_blocks(o, stream_context);
  config.block_size = kBlockSize;
  config.max_num_seqs = o.streams + 1;
  config.max_num_batched_tokens = o.alone + o.streams;
  config.max_model_len = context;
  config.enable_prefix_caching = false;
  QUIRE_RETURN_IF_ERROR(validate(config));
  QUIRE_TRY(auto runner, ModelRunner::create(model, config.num_blocks, kBlockSize,
                                             config.max_num_batched_tokens));
  AdmissionBench bench(*runner, config, o);
  const std::string large = std::to_string(o.alone), small = std::to_string(o.contended);
  for (int round = 1; round <= o.rounds; ++round) {
    double target = 0;
    for (const Arm& arm :
         {Arm{"chunk " + large, {o.alone, o.alone}},
          Arm{"chunk " + small, {o.contended, o.contended}, 0, true, false},
          Arm{"policy", {o.alone, o.contended}}, Arm{"target", {o.alone, o.contended}, -1},
          Arm{"null " + small, {o.contended, o.contended}, 0, true, false},
          Arm{"null " + large, {o.alone, o.alone}, 0, false, true}}) {
      Arm now = arm;
      if (now.max_itl_ms < 0) now.max_itl_ms = target;
      QUIRE_TRY(AdmissionBenchLine line, bench.run(now));
      line.round = round;
      if (now.name == "chunk " + small) target = line.itl_p95_admission;
      done(line);
    }
  }
  return Ok{};
}

}  // namespace quire
