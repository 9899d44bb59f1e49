#include "engine/runner/cost_runner.h"

#include "engine/runner/serving_workload.h"
#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

const MachineCosts kCosts{{{4.0, 0.9, 2.0, 0.8, 2e-4, 1e-4}, true}, 20};

std::unique_ptr<Request> request_of(std::int64_t id, int prompt, int output) {
  SamplingParams params;
  params.max_tokens = output;
  params.ignore_eos = true;
  return std::make_unique<Request>(id_of(id), prompt_of(prompt), params);
}

RequestSource source_of(const WorkloadOptions& options) {
  return std::move(make_workload(options)).value();
}

SimulationOptions simulation_with(int num_blocks) {
  SimulationOptions options;
  options.config = small_config(num_blocks);
  options.config.max_model_len = 2048;
  options.config.max_queue = 10'000;
  options.costs = kCosts;
  return options;
}

WorkloadOptions workload_with(int requests, double rate) {
  WorkloadOptions options;
  options.num_requests = requests;
  options.rate = rate;
  options.max_tokens_in_all = 256;
  options.prefix_median = 64;
  options.own_median = 24;
  options.output_median = 12;
  return options;
}

}  // namespace

class TestCostRunner : public QObject {
  Q_OBJECT
 private slots:
  void everyStepTakesWhatItsRecordedShapeCosts() {
    EngineConfig config = small_config(40);
    config.max_num_batched_tokens = 48;
    config.preemption_mode = PreemptionMode::kSwap;
    config.num_swap_blocks = 40;
    CostRunner runner(kCosts, 101, [](RequestId, int place) { return place % 101; });
    EngineCore core(config, runner, runner.clock());
    RecordingSink sink;
    core.add_sink(&sink);
    for (int i = 0; i < 6; ++i) QVERIFY(core.add_request(request_of(i, 50 + 5 * i, 120)).ok());
    int swapped = 0;
    while (core.has_unfinished()) {
      const double before = runner.now_s();
      const std::size_t records = sink.records.size();
      core.step();
      if (sink.records.size() == records) continue;
      const StepRecord& record = sink.last();
      double expected = kCosts.move_us_per_block * 1e-3 * static_cast<double>(record.moves.size());
      if (!record.scheduled.empty()) expected += kCosts.step_time.predict_ms(record.shape);
      QVERIFY(std::abs((runner.now_s() - before) * 1e3 - expected) < 1e-6);
      swapped += static_cast<int>(record.moves.size());
    }
    QVERIFY(swapped > 0);
    core.check_integrity();
  }

  void answersWithTheTokensItIsGiven() {
    CostRunner runner(kCosts, 101, [](RequestId request, int place) {
      return static_cast<TokenId>(index(request) * 10 + place);
    });
    EngineCore core(small_config(40), runner, runner.clock());
    auto request = request_of(4, 20, 30);
    request->params.ignore_eos = false;
    request->eos_token_ids = {45};
    QVERIFY(core.add_request(std::move(request)).ok());
    std::vector<TokenId> answer;
    while (core.has_unfinished())
      for (const RequestOutput& output : core.step())
        for (const SampledRow& row : output.tokens) answer.push_back(row.token);
    QCOMPARE(answer, (std::vector<TokenId>{40, 41, 42, 43, 44, 45}));
  }

  void aCancelledStepCostsNothing() {
    CostRunner runner(kCosts, 101, [](RequestId, int) { return 1; });
    EngineCore core(small_config(40), runner, runner.clock());
    QVERIFY(core.add_request(request_of(0, 20, 3)).ok());
    core.cancel_step();
    core.step();
    QCOMPARE(runner.now_s(), 0.0);
    QCOMPARE(core.num_waiting(), 1);
  }
};

class TestSimulation : public QObject {
  Q_OBJECT
 private slots:
  void answersEveryRequestAndRepeatsItself() {
    const SimulationOptions options = simulation_with(96);
    const auto first = simulate(options, source_of(workload_with(60, 2)));
    const auto second = simulate(options, source_of(workload_with(60, 2)));
    QVERIFY(first.ok() && second.ok());
    QCOMPARE(first->report.finished, std::int64_t{60});
    QVERIFY(first->report.totals == second->report.totals);
    QCOMPARE(first->report.ttft_p99, second->report.ttft_p99);
    QVERIFY(first->report.hit_rate > 0);
  }

  void waitingGrowsWithTheRate() {
    const SimulationOptions options = simulation_with(96);
    const auto calm = simulate(options, source_of(workload_with(40, 0.2)));
    const auto busy = simulate(options, source_of(workload_with(40, 20)));
    QVERIFY(calm->report.wait_p50 < busy->report.wait_p50);
    QVERIFY(calm->report.ttft_p50 >= kCosts.step_time.ms[0]);
  }

  void refusedRequestsAreCountedWithTheReason() {
    SimulationOptions options = simulation_with(8);  // 128 tokens
    const auto result = simulate(options, source_of(workload_with(50, 2)));
    QVERIFY(result.ok());
    QVERIFY(result->report.rejected > 0);
    QCOMPARE(result->report.rejected + result->report.finished, std::int64_t{50});
    QVERIFY(!result->refused.empty());
  }
};

class TestServingMetrics : public QObject {
  Q_OBJECT
 private slots:
  void percentilesAreValuesThatOccurred() {
    Samples samples;
    QCOMPARE(samples.percentile(0.5), 0.0);
    for (int i = 100; i >= 1; --i) samples.add(i);
    QCOMPARE(samples.percentile(0.5), 50.0);
    QCOMPARE(samples.percentile(0.99), 99.0);
    QCOMPARE(samples.percentile(1.0), 100.0);
    QCOMPARE(samples.mean(), 50.5);
  }

  void timesAreSeenFromOutside() {
    ServingMetrics metrics;
    metrics.arrived(id_of(1), 10);
    metrics.started(id_of(1), 10.5);
    metrics.started(id_of(1), 11.5);
    metrics.produced(id_of(1), 1, 12);
    metrics.produced(id_of(1), 2, 13);
    metrics.ended(id_of(1), true);
    const ServingReport report = metrics.report({});
    QCOMPARE(report.wait_max, 500.0);
    QCOMPARE(report.ttft_p50, 2000.0);
    QCOMPARE(report.itl_p99, 1000.0);
    QCOMPARE(report.itl_p50, 0.0);
    QCOMPARE(report.tpot_p50, 500.0);
    QCOMPARE(report.duration_s, 3.0);
    QCOMPARE(report.output_tok_s, 1.0);
  }
};

QUIRE_TEST(TestCostRunner)
QUIRE_TEST(TestSimulation)
QUIRE_TEST(TestServingMetrics)
#include "tst_cost_runner.moc"
