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
    QVERIFY(result.forward_us > 0);
  }

  // Of rows that take the largest logit only that is made; which are, changes no token.
  void theLargestLogitAloneGivesTheSameTokens() {
    for (const bool reference : {true, false}) {
      std::string error;
      auto tiny =
          test::make_tiny(reference ? make_reference_backend() : make_cpu_backend({}, error));
      SamplingParams greedy, drawn, logprobs;
      for (SamplingParams* params : {&greedy, &logprobs}) params->temperature = 0;
      for (SamplingParams* params : {&greedy, &drawn, &logprobs}) params->seed = 5;
      logprobs.logprobs = 2;
      const SamplingParams* kinds[] = {&greedy, &drawn, &logprobs, &greedy};
      std::vector<std::unique_ptr<Request>> requests;
      std::vector<BatchEntry> entries;
      std::vector<SamplingRow> rows;
      const BlockId blocks[] = {BlockId{0}, BlockId{1}, BlockId{2}, BlockId{3}};
      for (int i = 0; i < 4; ++i) {
        requests.push_back(std::make_unique<Request>(
            RequestId{i}, std::vector<TokenId>{5 * i + 1, 7 * i + 2}, *kinds[i]));
        const Request& request = *requests.back();
        entries.push_back({&request, 2, {&blocks[i], 1}});
        rows.push_back({request.id, &request.params, 0, request.token_ids, 2, {}});
      }
      const Batch batch = build_batch(entries, 16, 8);
      const std::atomic<bool> never{false};
      auto runner = ModelRunner::create(*tiny.model, 4, 16, 64).value();
      const StepResult some = runner->collect(runner->launch(batch, rows, never));
      QCOMPARE(runner->last_logits().size(), std::size_t{2} * runner->vocab_size());
      runner->keep_all_logits();
      const StepResult all = runner->collect(runner->launch(batch, rows, never));
      const auto logits = runner->last_logits();
      QCOMPARE(logits.size(), std::size_t{4} * runner->vocab_size());
      for (int i = 0; i < 4; ++i) {
        QCOMPARE(some.rows[i].token, all.rows[i].token);
        QCOMPARE(some.rows[i].top.size(), all.rows[i].top.size());
        const auto row = logits.subspan(static_cast<std::size_t>(i) * runner->vocab_size(),
                                        static_cast<std::size_t>(runner->vocab_size()));
        if (i != 1)
          QCOMPARE(static_cast<std::ptrdiff_t>(some.rows[i].token),
                   std::ranges::max_element(row) - row.begin());
      }
    }
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
