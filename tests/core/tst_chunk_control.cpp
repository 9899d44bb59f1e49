#include "engine/core/chunk_control.h"

#include <algorithm>
#include <limits>

#include "tests/support/test_main.h"

using namespace quire;

namespace {

// 10 ms a step, 0.1 ms a prompt token, 0.5 ms a decode.
const StepTimeModel kMachine{{10, 0.1, 0.5, 0, 0, 0}, true};

EngineConfig config_with(double max_itl_ms) {
  EngineConfig config;
  config.num_blocks = 1024;
  config.max_model_len = 8192;
  config.max_num_batched_tokens = 2048;
  config.max_itl_ms = max_itl_ms;
  return config;
}

DecisionInputs inputs_with(double debt_ms = 0, int steps_without_prefill = 0) {
  DecisionInputs inputs;
  inputs.step_time = kMachine;
  inputs.decode_debt_ms = debt_ms;
  inputs.steps_without_prefill = steps_without_prefill;
  return inputs;
}

ChunkState beside(int streams, int computed = 0) {
  ChunkState state;
  state.others_decoding = streams > 0;
  state.decodes = {0, streams, streams, 0, streams * 100LL};
  state.prefill_computed = computed;
  return state;
}

// A stream of steps on a machine that takes `slower` times what the model says, beside `streams`,
// until a prompt of `tokens` is through.
struct Served {
  int steps = 0;
  double total_ms = 0;  // that the streams waited
  int longest_pause = 0;
  bool done = false;
};
Served serve_prompt(int tokens, int streams, double target, double slower,
                    StepTimeModel machine = kMachine) {
  const EngineConfig config = config_with(target);
  const auto source = make_measured_decisions();
  for (int i = 0; i < 16; ++i) {  // so that the model is fitted when the prompt comes
    StepObservation step;
    step.shape = {i % 2 == 0 ? 64 : 0, streams, streams, i % 2 == 0 ? 2080 : 0, streams * 100LL};
    step.step_ms = machine.predict_ms(step.shape);
    source->observe(step);
  }
  Served served;
  int computed = 0, pause = 0;
  while (computed < tokens && served.steps < 100'000) {
    const int limit = prefill_limit(config, source->next(), beside(streams, computed));
    const int n = std::min(limit, tokens - computed);
    StepObservation step;
    step.shape = beside(streams).decodes;
    step.shape.prefill_tokens = n;
    step.shape.prefill_pairs = static_cast<std::int64_t>(n) * (computed + n / 2);
    step.step_ms = slower * machine.predict_ms(step.shape);
    step.contended = true;
    step.prefill_waiting = n < tokens - computed;
    step.max_itl_ms = target;
    source->observe(step);
    computed += n;
    pause = n == 0 ? pause + 1 : 0;
    served.longest_pause = std::max(served.longest_pause, pause);
    served.total_ms += step.step_ms;
    ++served.steps;
  }
  served.done = computed >= tokens;
  return served;
}

}  // namespace

class TestChunkControl : public QObject {
  Q_OBJECT
 private slots:
  void policyTakesTheExplicitValueInBothStates() {
    QVERIFY((PrefillChunkPolicy::resolve(std::nullopt) == PrefillChunkPolicy{2048, 512}));
    QVERIFY((PrefillChunkPolicy::resolve(1024) == PrefillChunkPolicy{1024, 1024}));
    QVERIFY((PrefillChunkPolicy::resolve(0) == PrefillChunkPolicy{0, 0}));
  }

  void policyDecidesByWhoIsDecoding() {
    const EngineConfig config = config_with(0);
    QCOMPARE(prefill_limit(config, inputs_with(), beside(0)), 2048);
    QCOMPARE(prefill_limit(config, inputs_with(), beside(1)), 512);
  }

  void zeroIsNoLimit() {
    EngineConfig config = config_with(0);
    config.prefill_chunk = PrefillChunkPolicy::resolve(0);
    QCOMPARE(prefill_limit(config, inputs_with(), beside(1)), std::numeric_limits<int>::max());
    QCOMPARE(prefill_limit(config, inputs_with(), beside(0)), std::numeric_limits<int>::max());
  }

  void targetTakesTheLargestChunkOnTheGridThatFits() {
    // 10 + 4 * 0.5 + 0.1 n <= 50: n <= 380, on the grid 368.
    QCOMPARE(prefill_limit(config_with(50), inputs_with(), beside(4)), 368);
    const StepTimeModel with_pairs{{10, 0.1, 0.5, 0, 1e-4, 0}, true};
    DecisionInputs inputs = inputs_with();
    inputs.step_time = with_pairs;  // 12 + 0.1 n + 1e-4 (1000 n + n (n + 1) / 2) <= 50: n <= 176
    QCOMPARE(prefill_limit(config_with(50), inputs, beside(4, 1000)), 176);
  }

  void theMarginLeavesRoomForSlowSteps() {
    DecisionInputs inputs = inputs_with();
    inputs.step_time_margin = 1.25;  // 12 + 0.1 n <= 50 / 1.25: n <= 280, on the grid 272
    QCOMPARE(prefill_limit(config_with(50), inputs, beside(4)), 272);
  }

  void targetMayTakeMoreThanTheContendedChunkButNeverMoreThanAlone() {
    QCOMPARE(prefill_limit(config_with(100), inputs_with(), beside(4)), 880);
    QCOMPARE(prefill_limit(config_with(10'000), inputs_with(), beside(4)), 2048);
    EngineConfig config = config_with(10'000);
    config.prefill_chunk = PrefillChunkPolicy::resolve(1000);  // not on the grid
    QCOMPARE(prefill_limit(config, inputs_with(), beside(4)), 1000);
    config.prefill_chunk = PrefillChunkPolicy::resolve(0);
    config.max_num_batched_tokens = 512;
    QCOMPARE(prefill_limit(config, inputs_with(), beside(4)), 512);
  }

  void withoutAStreamOrAFitThePolicyDecides() {
    QCOMPARE(prefill_limit(config_with(50), inputs_with(), beside(0)), 2048);
    DecisionInputs unfitted;
    QCOMPARE(prefill_limit(config_with(50), unfitted, beside(4)), 512);
  }

  void debtShrinksTheChunkAndThenStopsIt() {
    QCOMPARE(prefill_limit(config_with(50), inputs_with(20), beside(4)), 272);  // target 40
    QVERIFY(prefill_limit(config_with(50), inputs_with(50), beside(4)) > 0);
    QCOMPARE(prefill_limit(config_with(50), inputs_with(50.1), beside(4)), 0);
  }

  void anOverduePromptGetsTheSmallestChunk() {
    QCOMPARE(
        prefill_limit(config_with(50), inputs_with(200, kMaxStepsWithoutPrefill - 1), beside(4)),
        0);
    QCOMPARE(prefill_limit(config_with(50), inputs_with(200, kMaxStepsWithoutPrefill), beside(4)),
             kChunkGrid);
    // Nothing fits such a target, debt or not.
    QCOMPARE(prefill_limit(config_with(5), inputs_with(0, 0), beside(4)), 0);
    QCOMPARE(prefill_limit(config_with(5), inputs_with(0, kMaxStepsWithoutPrefill), beside(4)),
             kChunkGrid);
    EngineConfig tiny = config_with(5);
    tiny.prefill_chunk = PrefillChunkPolicy::resolve(8);
    QCOMPARE(prefill_limit(tiny, inputs_with(0, kMaxStepsWithoutPrefill), beside(4)), 8);
  }

  void streamsWaitTheTargetOnAverage_data() {
    QTest::addColumn<double>("slower");
    for (const double slower : {0.5, 1.0, 1.3, 2.0, 3.0})
      QTest::addRow("%g times the model", slower) << slower;
  }
  void streamsWaitTheTargetOnAverage() {
    QFETCH(double, slower);
    const Served served = serve_prompt(20'000, 4, 50, slower);
    QVERIFY(served.done);
    QVERIFY2(served.total_ms / served.steps <= 50 * 1.02,
             qPrintable(QString::number(served.total_ms / served.steps)));
  }

  void promptsAreServedHoweverTightTheTarget() {
    const int tokens = 1000;
    const Served served = serve_prompt(tokens, 4, 5, 1);  // decoding alone takes longer
    QVERIFY(served.done);
    QVERIFY(served.longest_pause <= kMaxStepsWithoutPrefill);
    QVERIFY(served.steps <= (tokens + kChunkGrid - 1) / kChunkGrid * (kMaxStepsWithoutPrefill + 1));
  }

  void longContextsGetSmallerChunks() {
    const StepTimeModel with_pairs{{10, 0.1, 0.5, 0, 1e-4, 0}, true};
    DecisionInputs inputs = inputs_with();
    inputs.step_time = with_pairs;
    int previous = std::numeric_limits<int>::max();
    for (int computed = 0; computed < 8000; computed += 500) {
      const int limit = prefill_limit(config_with(50), inputs, beside(4, computed));
      QVERIFY(limit <= previous);
      previous = limit;
    }
    QVERIFY(previous > 0 && previous < 64);
    QVERIFY(serve_prompt(8000, 4, 50, 1, with_pairs).done);
  }
};

QUIRE_TEST(TestChunkControl)
#include "tst_chunk_control.moc"
