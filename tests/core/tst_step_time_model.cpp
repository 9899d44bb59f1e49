#include "engine/core/step_time_model.h"

#include <cmath>

#include "engine/core/decision_inputs.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

const StepTimeModel kTrue{{5.0, 0.2, 0.5, 0.3, 1e-5, 2e-5}, true};

// Steps as a server makes them: some prompts, some decodes, contexts that grow.
StepShape shape_of(int i) {
  StepShape shape;
  shape.decode_tokens = (i * 7) % 9;
  shape.num_samples = shape.decode_tokens + (i % 3 == 0 ? 1 : 0);
  shape.decode_context = shape.decode_tokens * (100LL + (i * 37) % 4000);
  if (i % 2 == 0) {
    shape.prefill_tokens = 16 * (1 + (i * 5) % 32);
    shape.prefill_pairs = shape.prefill_tokens * (50LL + (i * 211) % 3000);
  }
  return shape;
}

StepShape decode_step(int streams, int context = 100) {
  return {0, streams, streams, 0, static_cast<std::int64_t>(streams) * context};
}

StepShape mixed_step(int prefill, int streams) {
  StepShape shape = decode_step(streams);
  shape.prefill_tokens = prefill;
  shape.prefill_pairs = static_cast<std::int64_t>(prefill) * prefill / 2;
  return shape;
}

double worst_error(const StepTimeModel& model, double slower = 1) {
  double worst = 0;
  for (int i = 0; i < 50; ++i) {
    const double truth = slower * kTrue.predict_ms(shape_of(i));
    worst = std::max(worst, std::abs(model.predict_ms(shape_of(i)) - truth) / truth);
  }
  return worst;
}

StepObservation seen(const StepShape& shape, double ms, double target = 50) {
  StepObservation step;
  step.shape = shape;
  step.step_ms = ms;
  step.contended = shape.decode_tokens > 0;
  step.prefill_waiting = true;
  step.max_itl_ms = target;
  return step;
}

}  // namespace

class TestStepTimeModel : public QObject {
  Q_OBJECT
 private slots:
  void predictsTheSumOfItsTerms() {
    const StepShape shape{10, 4, 5, 1000, 2000};
    QCOMPARE(kTrue.predict_ms(shape), 5 + 2.0 + 2.0 + 1.5 + 0.01 + 0.04);
  }

  void isNotFittedBeforeItHasSeenEnough() {
    StepTimeFitter fitter;
    for (int i = 0; i < StepTimeFitter::kLeastSteps - 1; ++i)
      fitter.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
    QVERIFY(!fitter.fit().fitted);
    fitter.observe(shape_of(9), kTrue.predict_ms(shape_of(9)));
    QVERIFY(fitter.fit().fitted);
    QVERIFY(fitter.current().fitted);
  }

  void isNotFittedWithoutAPrompt() {
    StepTimeFitter fitter;
    for (int i = 0; i < 100; ++i) fitter.observe(decode_step(4), 10);
    QVERIFY(!fitter.fit().fitted);
    fitter.observe(mixed_step(64, 4), 30);
    QVERIFY(fitter.current().fitted);
  }

  void findsTheCoefficientsOfAnExactMachine() {
    StepTimeFitter fitter;
    for (int i = 0; i < 300; ++i) fitter.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
    QVERIFY2(worst_error(fitter.fit()) < 0.01,
             qPrintable(QString::number(worst_error(fitter.fit()))));
  }

  void noiseAveragesOut() {
    StepTimeFitter fitter;
    std::uint32_t state = 1;
    for (int i = 0; i < 600; ++i) {
      state = state * 1664525 + 1013904223;
      const double noise = 0.9 + 0.2 * (state >> 8) / (1 << 24);
      fitter.observe(shape_of(i), noise * kTrue.predict_ms(shape_of(i)));
    }
    QVERIFY2(worst_error(fitter.fit()) < 0.06,
             qPrintable(QString::number(worst_error(fitter.fit()))));
  }

  void followsAMachineThatSlowsDown() {
    StepTimeFitter fitter(64);
    for (int i = 0; i < 400; ++i) fitter.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
    for (int i = 0; i < 800; ++i) fitter.observe(shape_of(i), 2 * kTrue.predict_ms(shape_of(i)));
    QVERIFY(worst_error(fitter.fit(), 2) < 0.03);
  }

  void oneStalledStepChangesLittle() {
    StepTimeFitter fitter;
    for (int i = 0; i < 300; ++i) fitter.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
    fitter.observe(shape_of(7), 100 * kTrue.predict_ms(shape_of(7)));
    QVERIFY(worst_error(fitter.fit()) < 0.1);
  }

  void coefficientsAreNeverNegative() {
    StepTimeFitter fitter;
    for (int i = 0; i < 300; ++i)  // longer contexts look faster: only a negative term would fit
      fitter.observe(shape_of(i), 50 - 1e-3 * static_cast<double>(shape_of(i).decode_context));
    for (const double value : fitter.fit().ms) QVERIFY(value >= 0 && std::isfinite(value));
  }

  void termsNoStepHadStayZero() {
    StepTimeFitter fitter;
    for (int i = 0; i < 50; ++i) {
      fitter.observe({0, 4, 4, 0, 0}, 12);
      fitter.observe({64, 4, 4, 0, 0}, 40);
    }
    const StepTimeModel model = fitter.fit();
    QCOMPARE(model.ms[4], 0.0);
    QCOMPARE(model.ms[5], 0.0);
    QVERIFY(std::abs(model.predict_ms({64, 4, 4, 0, 0}) - 40) < 0.1);
    QVERIFY(std::abs(model.predict_ms({128, 4, 4, 0, 0}) - 68) < 0.2);
  }

  void anHourOfDecodingKeepsThePriceOfAPrompt() {
    StepTimeFitter fitter;
    for (int i = 0; i < 100; ++i) fitter.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
    const double before = fitter.fit().predict_ms(mixed_step(512, 4));
    for (int i = 0; i < 300'000; ++i)
      fitter.observe(decode_step(4), kTrue.predict_ms(decode_step(4)));
    const StepTimeModel after = fitter.fit();
    QVERIFY(after.fitted);
    QVERIFY(std::abs(after.predict_ms(mixed_step(512, 4)) - before) < 0.05 * before);
    QVERIFY(std::abs(after.predict_ms(decode_step(4)) - kTrue.predict_ms(decode_step(4))) < 0.1);
  }

  void uselessTimesAreIgnored() {
    StepTimeFitter fitter, same;
    for (int i = 0; i < 50; ++i) {
      fitter.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
      same.observe(shape_of(i), kTrue.predict_ms(shape_of(i)));
      fitter.observe(shape_of(i), 0);
      fitter.observe(shape_of(i), std::nan(""));
      fitter.observe(shape_of(i), HUGE_VAL);
    }
    QVERIFY(fitter.fit() == same.fit());
  }
};

class TestMeasuredDecisions : public QObject {
  Q_OBJECT
 private slots:
  void beginWithNothingMeasured() {
    QVERIFY(make_measured_decisions()->next() == DecisionInputs{});
    QCOMPARE(make_measured_decisions(120)->next().swap_us_per_block, 120.0);
  }

  void debtGrowsByTheExcessAndIsPaidBySlack() {
    const auto source = make_measured_decisions();
    source->observe(seen(mixed_step(512, 4), 80));
    QCOMPARE(source->next().decode_debt_ms, 30.0);
    source->observe(seen(decode_step(4), 40));
    QCOMPARE(source->next().decode_debt_ms, 20.0);
    source->observe(seen(mixed_step(16, 4), 45));
    QCOMPARE(source->next().decode_debt_ms, 15.0);
    for (int i = 0; i < 3; ++i) source->observe(seen(decode_step(4), 10));
    QCOMPARE(source->next().decode_debt_ms, 0.0);
  }

  void marginIsWhatMostStepsNeeded() {
    const auto source = make_measured_decisions();
    for (int i = 0; i < 16; ++i)
      source->observe(seen(i % 2 ? mixed_step(64, 4) : decode_step(4), 20));
    QVERIFY(source->next().step_time_margin < 1.001);
    const double predicted = source->next().step_time.predict_ms(mixed_step(64, 4));
    source->observe(seen(mixed_step(64, 4), 1.4 * predicted));  // one slow step is no rule
    QVERIFY(source->next().step_time_margin < 1.05);
    source->observe(seen(mixed_step(64, 4), 1.3 * predicted));
    QVERIFY(source->next().step_time_margin > 1.2);
    source->observe(seen(mixed_step(64, 4), 20 * predicted));
    source->observe(seen(mixed_step(64, 4), 20 * predicted));
    QCOMPARE(source->next().step_time_margin, kMaxStepTimeMargin);
    for (int i = 0; i < 3 * kMarginSteps; ++i) source->observe(seen(mixed_step(64, 4), predicted));
    QVERIFY(source->next().step_time_margin < 1.1);
  }

  void slowDecodingAloneIsNoDebt() {
    const auto source = make_measured_decisions();
    source->observe(seen(decode_step(64), 90));
    QCOMPARE(source->next().decode_debt_ms, 0.0);
  }

  void debtIsCappedAndEndsWithTheStreams() {
    const auto source = make_measured_decisions();
    source->observe(seen(mixed_step(2048, 4), 5000));
    QCOMPARE(source->next().decode_debt_ms, kMaxDebtTargets * 50);
    source->observe(seen(mixed_step(512, 0), 80));
    QCOMPARE(source->next().decode_debt_ms, 0.0);
    source->observe(seen(mixed_step(2048, 4), 5000));
    source->observe(seen(decode_step(4), 10, 0));  // the target was taken away
    QCOMPARE(source->next().decode_debt_ms, 0.0);
  }

  void countsStepsAPromptWaitedThrough() {
    const auto source = make_measured_decisions();
    for (int i = 1; i <= 3; ++i) {
      source->observe(seen(decode_step(4), 10));
      QCOMPARE(source->next().steps_without_prefill, i);
    }
    source->observe(seen(mixed_step(16, 4), 20));
    QCOMPARE(source->next().steps_without_prefill, 0);
    StepObservation none = seen(decode_step(4), 10);
    none.prefill_waiting = false;
    source->observe(none);
    QCOMPARE(source->next().steps_without_prefill, 0);
  }

  void measuresWhatSwappingAndRecomputingCost() {
    const auto source = make_measured_decisions(1000);
    for (int i = 0; i < 50; ++i) {
      StepObservation step = seen(mixed_step(100, 0), 32);
      step.moved_blocks = 10;
      step.move_us = 2000;
      source->observe(step);
    }
    QVERIFY(std::abs(source->next().swap_us_per_block - 200) < 1);
    QVERIFY(std::abs(source->next().recompute_us_per_token - 300) < 1);  // without the moves
  }
};

QUIRE_TEST(TestStepTimeModel)
QUIRE_TEST(TestMeasuredDecisions)
#include "tst_step_time_model.moc"
