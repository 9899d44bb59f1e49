#include "tests/core/fuzz_run.h"
#include "tests/support/test_main.h"

using namespace quire::test;

// As many scheduler steps as QUIRE_FUZZ_STEPS says, from QUIRE_FUZZ_SEED (1) on:
// QUIRE_FUZZ_STEPS=1000000 build/dev/tests/quire_tests_core tst_engine_fuzz_whole
class TestEngineFuzzWhole : public QObject {
  Q_OBJECT
 private slots:
  void randomServingFollowsTheModel();
};

void TestEngineFuzzWhole::randomServingFollowsTheModel() {
  constexpr int kStepsPerCase = 400, kCasesAtOnce = 50;
  const long long wanted = qEnvironmentVariableIntValue("QUIRE_FUZZ_STEPS");
  if (wanted <= 0) QSKIP("Set QUIRE_FUZZ_STEPS to the number of scheduler steps to run.");
  const int first = qEnvironmentVariableIntValue("QUIRE_FUZZ_SEED");
  auto seed = static_cast<unsigned>(first > 0 ? first : 1);
  Tallies tallies;
  while (tallies[Tally::kSteps] < wanted) {
    const FuzzBatch batch = run_seeds(seed, kCasesAtOnce, kStepsPerCase);
    tallies.add(batch.tallies);
    seed += kCasesAtOnce;
    if (batch.failed) QFAIL(explain(batch, kStepsPerCase).c_str());
  }
  qInfo("%s", tally_text(tallies).c_str());
  QCOMPARE(below_floor(tallies), std::string());
}

QUIRE_TEST(TestEngineFuzzWhole)
#include "tst_engine_fuzz_whole.moc"
