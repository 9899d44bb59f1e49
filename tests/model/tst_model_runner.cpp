#include "engine/runner/model_runner.h"

#include <algorithm>

#include "tests/model/hooked_backend.h"
#include "tests/model/schedule_checks.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

class TestModelRunner : public QObject {
  Q_OBJECT
 private slots:
  void answersDoNotDependOnTheSchedule_data() {
    QTest::addColumn<QString>("backend");
    for (const char* backend : {"reference", "cpu", "cpu f32"}) QTest::newRow(backend) << backend;
  }
  void answersDoNotDependOnTheSchedule() {
    QFETCH(QString, backend);
    auto tiny = test::make_tiny(test::make_backend(backend.toStdString()));
    const auto prompts = test::five_prompts(tiny.model->config().vocab_size);
    const auto alone = test::run_alone(*tiny.model, prompts);
    for (const auto& named : test::schedule_configs()) {
      const auto run = test::run_scheduled(*tiny.model, named.config, prompts);
      const std::string difference = test::first_difference(alone, run);
      QVERIFY2(difference.empty(), (named.name + ": " + difference).c_str());
      QCOMPARE(run.counters.preemptions > 0, named.preempts);
      QCOMPARE(run.counters.prefix_cache_hits > 0, named.config.enable_prefix_caching);
    }
  }

  // Every cell of the matrix on one backend, every seventh on the others.
  void noCellOfTheScheduleMatrixChangesABit_data() {
    QTest::addColumn<QString>("backend");
    QTest::addColumn<int>("stride");
    QTest::newRow("cpu") << "cpu" << 1;
    QTest::newRow("cpu f32") << "cpu f32" << 7;
    QTest::newRow("reference") << "reference" << 7;
  }
  void noCellOfTheScheduleMatrixChangesABit() {
    QFETCH(QString, backend);
    QFETCH(int, stride);
    auto tiny = test::make_tiny(test::make_backend(backend.toStdString(), 1));
    const auto prompts = test::five_prompts(tiny.model->config().vocab_size);
    const auto alone = test::run_alone(*tiny.model, prompts);
    const auto matrix = test::schedule_matrix();
    EngineCounters totals;
    for (std::size_t i = 0; i < matrix.size(); i += static_cast<std::size_t>(stride)) {
      const auto run = test::run_scheduled(*tiny.model, matrix[i].config, prompts, 3);
      const std::string difference = test::first_difference(alone, run);
      QVERIFY2(difference.empty(), (matrix[i].name + ": " + difference).c_str());
      totals.preemptions += run.counters.preemptions;
      totals.swap_preemptions += run.counters.swap_preemptions;
      totals.displacements += run.counters.displacements;
      totals.blocks_swapped_out += run.counters.blocks_swapped_out;
      totals.prefix_cache_hits += run.counters.prefix_cache_hits;
      totals.partial_copies += run.counters.partial_copies;
      if (matrix[i].config.preemption_mode == PreemptionMode::kRecompute)
        QCOMPARE(run.counters.swap_preemptions, std::int64_t{0});
      QVERIFY(run.counters.blocks_swapped_in <= run.counters.blocks_swapped_out);
    }
    QVERIFY(totals.swap_preemptions > 0);
    QVERIFY(totals.preemptions > totals.swap_preemptions);
    QVERIFY(totals.displacements > 0);
    QVERIFY(totals.blocks_swapped_out > 0);
    QVERIFY(totals.prefix_cache_hits > 0);
    QVERIFY(totals.partial_copies > 0);
  }

  void aCancelledStepGivesNoRows() {
    auto tiny = test::make_tiny(make_reference_backend());
    auto runner = ModelRunner::create(*tiny.model, 4, 16, 64).value();
    SamplingParams params;
    params.temperature = 0;
    params.seed = 0;
    const Request request(RequestId{0}, {1, 2, 3}, params);
    const BlockId block{2};
    const BatchEntry entry{&request, 3, {&block, 1}};
    const Batch batch = build_batch({&entry, 1}, 16, 3);
    const SamplingRow row{request.id, &params, 0, request.token_ids, 3, {}};
    std::atomic<bool> cancel{true};
    QVERIFY(runner->collect(runner->launch(batch, {&row, 1}, cancel)).cancelled);
    cancel = false;
    const StepResult result = runner->collect(runner->launch(batch, {&row, 1}, cancel));
    QVERIFY(!result.cancelled);
    QCOMPARE(result.rows.size(), std::size_t{1});
    const auto logits = runner->last_logits();
    QCOMPARE(static_cast<std::ptrdiff_t>(result.rows[0].token),
             std::ranges::max_element(logits) - logits.begin());
    QVERIFY(result.forward_us > 0);
  }

  void memoryThatRunsOutIsAnErrorAtFirstAndAFailedDeviceLater() {
    bool exhausted = false;
    int allocations = 0, fail_at = 0;
    auto tiny = test::make_tiny(
        std::make_unique<test::HookedBackend>(make_reference_backend(), [&](const char* operation) {
          const std::string_view what = operation;
          if (what.starts_with("allocate") && allocations++ == fail_at) throw std::bad_alloc();
          if (exhausted && what == "embed") throw std::bad_alloc();
        }));
    for (fail_at = 0; fail_at < 5; ++fail_at) {
      allocations = 0;
      const auto refused = ModelRunner::create(*tiny.model, 4, 16, 64);
      QVERIFY(!refused.ok());
      QCOMPARE(refused.error().code, ErrorCode::kOutOfMemory);
    }
    fail_at = -1;
    auto runner = ModelRunner::create(*tiny.model, 4, 16, 64).value();
    exhausted = true;
    const Request request(RequestId{0}, {1, 2, 3}, {});
    const BlockId block{0};
    const BatchEntry entry{&request, 2, {&block, 1}};
    const Batch batch = build_batch({&entry, 1}, 16);
    QVERIFY_EXCEPTION_THROWN(runner->launch(batch, {}, std::atomic<bool>{false}), DeviceError);
  }

  void aPoolBeyondTheMachineIsRefused() {
    auto tiny = test::make_tiny(make_reference_backend());
    const auto runner = ModelRunner::create(*tiny.model, 2'000'000'000, 16, 64);
    QVERIFY(!runner.ok());
    QCOMPARE(runner.error().code, ErrorCode::kOutOfMemory);
    QVERIFY(runner.error().message.find("2000000000 blocks") != std::string::npos);
    QCOMPARE(ModelRunner::create(*tiny.model, 0, 16, 64).error().code, ErrorCode::kInvalidArgument);
  }
};

QUIRE_TEST(TestModelRunner)
#include "tst_model_runner.moc"
