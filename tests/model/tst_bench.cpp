#include "engine/runner/bench_core.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

class TestBench : public QObject {
  Q_OBJECT
 private slots:
  void theWorkloadSharesItsSystemPrompt() {
    const auto workload = core_bench_workload(16, 260);
    QCOMPARE(workload.size(), std::size_t{16});
    for (const BenchRequest& request : workload) {
      QVERIFY(std::equal(request.prompt.begin(), request.prompt.begin() + 192,
                         workload[0].prompt.begin()));
      QVERIFY(request.prompt.size() >= 200 && request.prompt.size() <= 240);
      QVERIFY(request.max_tokens >= 8 && request.max_tokens <= 40);
    }
    QVERIFY(workload[0].prompt != workload[1].prompt);
    QVERIFY(core_bench_workload(16, 260)[7].prompt == workload[7].prompt);
  }

  void threeEnginesGiveOneAnswer() {
    auto tiny = test::make_tiny(make_reference_backend());
    const auto lines = run_core_bench(*tiny.model, 16);
    QVERIFY(lines.ok());
    QCOMPARE(lines->size(), std::size_t{3});
    const CoreBenchLine &rows = (*lines)[0], &ample = (*lines)[1], &tight = (*lines)[2];
    QCOMPARE(ample.outputs_hash, rows.outputs_hash);
    QCOMPARE(tight.outputs_hash, rows.outputs_hash);
    QCOMPARE(ample.output_tokens, rows.output_tokens);
    QCOMPARE(rows.kv_slots, 2560);
    QCOMPARE(ample.kv_slots, 65536);
    QCOMPARE(tight.kv_slots, 384);
    QVERIFY(ample.prefix_hit_rate > 0.75 && ample.prefix_hit_rate < 0.85);
    QVERIFY(tight.prefix_hit_rate > 0.80 && tight.prefix_hit_rate < 0.95);
    QCOMPARE(ample.preemptions, 0);
    QVERIFY(tight.preemptions > 0);
    QVERIFY(tight.steps > ample.steps);
  }
};

QUIRE_TEST(TestBench)
#include "tst_bench.moc"
