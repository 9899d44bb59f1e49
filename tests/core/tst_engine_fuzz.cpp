#include "tests/core/fuzz_run.h"
#include "tests/support/test_main.h"

using namespace quire::test;

namespace {
constexpr int kStepsPerCase = 200;
}

class TestEngineFuzz : public QObject {
  Q_OBJECT
 private slots:
  void randomServingFollowsTheModel_data();
  void randomServingFollowsTheModel();
  void everyKindOfEventWasMet();

 private:
  Tallies tallies_;
};

void TestEngineFuzz::randomServingFollowsTheModel_data() {
  QTest::addColumn<int>("first");
  for (int first = 1; first <= 161; first += 20) QTest::addRow("seeds from %d", first) << first;
}

// Random arrivals, aborts, cancels, failures, resets and changes of settings on random pools, every
// record compared with a second account of what must hold.
void TestEngineFuzz::randomServingFollowsTheModel() {
  QFETCH(int, first);
  const FuzzBatch batch = run_seeds(static_cast<unsigned>(first), 20, kStepsPerCase);
  tallies_.add(batch.tallies);
  if (batch.failed) QFAIL(explain(batch, kStepsPerCase).c_str());
}

void TestEngineFuzz::everyKindOfEventWasMet() {
  qInfo("%s", tally_text(tallies_).c_str());
  QCOMPARE(below_floor(tallies_), std::string());
}

QUIRE_TEST(TestEngineFuzz)
#include "tst_engine_fuzz.moc"
