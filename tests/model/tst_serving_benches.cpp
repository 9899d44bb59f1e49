#include "engine/runner/bench_admission.h"
#include "engine/runner/bench_calibrate.h"
#include "engine/runner/bench_multiturn.h"
#include "engine/runner/bench_overhead.h"
#include "engine/runner/bench_policy.h"
#include "engine/runner/bench_preemption.h"
#include "engine/runner/bench_prefix_index.h"
#include "engine/runner/bench_scheduler.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

// That the benches measure what they say, on small workloads. No times are compared.
class TestServingBenches : public QObject {
  Q_OBJECT
 private slots:
  void admissionRunsEveryArmInEveryRound() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    AdmissionBenchOptions options;
    options.prompt_tokens = 300;
    options.alone = 128;
    options.contended = 32;
    options.rounds = 2;
    std::vector<std::string> arms;
    const Status status = run_admission_bench(*tiny.model, options, [&](const auto& line) {
      arms.push_back(std::to_string(line.round) + " " + line.arm);
      QCOMPARE(line.ttft_alone > 0, line.arm != "chunk 32" && line.arm != "null 32");
      const bool beside = line.arm != "null 128";
      QCOMPARE(line.ttft > 0, beside);
      QCOMPARE(line.itl_p95_quiet > 0 && line.itl_p95_admission > 0, beside);
      QCOMPARE(line.max_itl_ms > 0, line.arm == "target");
    });
    QVERIFY(status.ok());
    std::vector<std::string> wanted;
    for (const char* round : {"1 ", "2 "})
      for (const char* arm : {"chunk 128", "chunk 32", "policy", "target", "null 32", "null 128"})
        wanted.push_back(std::string(round) + arm);
    QCOMPARE(arms, wanted);
    options.prompt_tokens = 1 << 20;
    QVERIFY(!run_admission_bench(*tiny.model, options, [](const auto&) {}).ok());
  }

  void preemptionGivesTheSameAnswersInEveryMode() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    PreemptionBenchOptions options;
    options.prompt_tokens = 48;
    options.output_tokens = 24;
    options.longest_context = 256;
    const auto bench = run_preemption_bench(*tiny.model, options);
    QVERIFY(bench.ok());
    for (const PreemptionBenchLine& line : bench->lines) {
      QVERIFY(line.same_outputs);
      QVERIFY(line.preemptions > 0);
      if (line.mode == PreemptionMode::kRecompute) QCOMPARE(line.bytes_swapped, 0);
      if (line.mode == PreemptionMode::kSwap) {
        QVERIFY(line.swap_preemptions > 0);
        QCOMPARE(line.bytes_swapped, line.blocks_swapped * bench->bytes_per_block);
      }
    }
    QVERIFY(bench->sweep.size() > 2);
    QVERIFY(bench->sweep.back().recompute_ms > 0 && bench->sweep.back().swap_ms > 0);
  }

  void aStepsPartsFitIntoItsTime() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const auto tokenizer = make_byte_tokenizer();
    OverheadBenchOptions options;
    options.parallel = {1, 3};
    options.steps = 10;
    std::vector<std::pair<int, bool>> lines;
    const Status status =
        run_overhead_bench(*tiny.model, *tokenizer, options, [&](const OverheadBenchLine& line) {
          lines.emplace_back(line.streams, line.sampled);
          QCOMPARE(line.steps, 10);
          const StepCost& cost = line.cost;
          QVERIFY(cost.forward > 0 && cost.schedule > 0 && cost.update > 0 && cost.sample > 0);
          // Phases that overlapped would leave less than nothing for publishing.
          QVERIFY(cost.publish > 0);
          QVERIFY(line.step_us > cost.forward);
          QVERIFY(line.overhead > 0 && line.overhead < 1);
        });
    QVERIFY(status.ok());
    QCOMPARE(lines,
             (std::vector<std::pair<int, bool>>{{1, false}, {1, true}, {3, false}, {3, true}}));
    options.parallel = {0};
    QVERIFY(!run_overhead_bench(*tiny.model, *tokenizer, options, [](const auto&) {}).ok());
  }

  void onlyStepsThatDecodeEveryStreamAreCosted() {
    const auto record = [](double start_s, std::vector<WorkKind> kinds) {
      auto made = std::make_shared<StepRecord>();
      made->times = {.start_s = start_s,
                     .schedule_us = 10,
                     .prepare_us = 20,
                     .forward_us = 600,
                     .sample_us = 30,
                     .update_us = 40};
      for (const WorkKind kind : kinds) made->scheduled.push_back({.kind = kind});
      return std::shared_ptr<const StepRecord>(made);
    };
    const auto prefill = WorkKind::kPrefill, decode = WorkKind::kDecode;
    const auto costs = decode_step_costs({record(0, {prefill, decode}), record(1, {decode, decode}),
                                          record(1.001, {decode, decode}), record(2, {decode})},
                                         2);
    QCOMPARE(costs.size(), std::size_t{1});
    QVERIFY(std::abs(costs[0].total() - 1000) < 0.01);
    QVERIFY(std::abs(costs[0].publish - 300) < 0.01);
    QVERIFY(std::abs(costs[0].overhead() - 0.4) < 1e-5);
  }

  void aLargerPoolKeepsMoreOfAConversation() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    for (const PrefixIndexKind index : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
      MultiturnBenchOptions options;
      options.users = 4;
      options.turns = 3;
      options.index = index;
      const auto lines = run_multiturn_bench(*tiny.model, options);
      QVERIFY(lines.ok());
      QVERIFY(lines->size() > 3);
      QVERIFY(lines->back().hit_rate > lines->front().hit_rate);
      QVERIFY(lines->front().evictions > 0);
      QCOMPARE(lines->back().evictions, 0);
    }
  }

  void longestPrefixFirstHitsMoreAndItsBoundHolds() {
    PolicyBenchOptions options;
    options.costs = default_costs();
    options.workload.num_requests = 300;
    options.workload.rate = 4;
    options.workload.num_prefixes = 20;
    options.config.num_blocks = 600;
    options.config.max_num_seqs = 8;
    options.config.max_queue = 10'000;
    options.config.max_model_len = 8192;
    options.config.lpm_max_overtakes = 5;
    const auto lines = run_policy_bench(options);
    QVERIFY(lines.ok());
    const PolicyBenchLine &fcfs = (*lines)[0], &lpm = (*lines)[1], &unbounded = (*lines)[2];
    QCOMPARE(fcfs.overtaken_max, 0);
    QVERIFY(lpm.report.hit_rate > fcfs.report.hit_rate);
    QVERIFY(lpm.overtaken_max <= 5);
    QVERIFY(unbounded.overtaken_max > 5);
  }

  void theRadixTreeHitsMoreOnATree() {
    PrefixIndexBenchOptions options;
    options.requests = 300;
    const auto lines = run_prefix_index_bench(options);
    QVERIFY(lines.ok());
    const PrefixIndexBenchLine &hash = (*lines)[0], &radix = (*lines)[1];
    QVERIFY(hash.index == PrefixIndexKind::kHash && radix.index == PrefixIndexKind::kRadix);
    QCOMPARE(hash.prompt_tokens, radix.prompt_tokens);
    QCOMPARE(hash.copied_tokens, 0);
    QVERIFY(radix.copied_tokens > 0);
    QVERIFY(radix.hit_tokens > hash.hit_tokens);
  }

  void schedulerStepsMixEverything() {
    SchedulerBenchOptions options;
    options.steps = 600;
    options.num_running = 16;
    options.num_waiting = 40;
    options.num_blocks = 800;
    options.prompt_tokens = 1300;
    options.output_tokens = 400;
    const auto lines = run_scheduler_bench(options);
    QVERIFY(lines.ok());
    QCOMPARE(lines->size(), std::size_t{3});
    for (const SchedulerBenchLine& line : *lines) {
      QVERIFY(line.decodes > 1 && line.admissions > 0 && line.finishes > 0);
      QVERIFY(line.preemptions > 0 && line.cached_tokens > 0);
      QVERIFY(line.schedule_p99_us >= line.schedule_p50_us && line.schedule_p50_us > 0);
    }
    QVERIFY(!run_scheduler_bench({.steps = 0}).ok());
  }

  void calibrationFitsItsOwnSteps() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const auto calibration = calibrate(*tiny.model, {.context = 256, .repeats = 1});
    QVERIFY(calibration.ok());
    QVERIFY(calibration->costs.step_time.fitted);
    QVERIFY(calibration->steps > 10);
  }
};

QUIRE_TEST(TestServingBenches)
#include "tst_serving_benches.moc"
