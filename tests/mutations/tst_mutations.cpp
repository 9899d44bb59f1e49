#include "engine/core/mutation.h"
#include "tests/core/fuzz_run.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

constexpr int kStepsPerCase = 200;
constexpr int kMostCases = 60;

const char* name_of(Mutation mutation) {
  static const char* const kNames[] = {
      "none",
      "slot off by one",
      "stale computed tokens",
      "no token left to compute",
      "wrong swap target",
      "leaked block",
      "double free",
      "hash not withdrawn",
      "partial copy too long",
      "aging ignored",
      "displaces equals",
      "draft slots kept",
      "salt ignored",
      "admits beside a preemption",
      "promised blocks ignored",
      "host blocks kept",
  };
  static_assert(std::size(kNames) == kNumMutations);
  return kNames[static_cast<int>(mutation)];
}

}  // namespace

class TestMutations : public QObject {
  Q_OBJECT
 private slots:
  void init() { active_mutation = Mutation::kNone; }
  void cleanup() { active_mutation = Mutation::kNone; }
  void withoutAFaultNothingIsFound();
  void everyFaultIsFound_data();
  void everyFaultIsFound();
  void aFailingCaseShrinksToAFewOperations();
};

void TestMutations::withoutAFaultNothingIsFound() {
  const FuzzBatch batch = run_seeds(1, 10, kStepsPerCase);
  QVERIFY2(!batch.failed, batch.what.c_str());
}

void TestMutations::everyFaultIsFound_data() {
  QTest::addColumn<int>("mutation");
  for (int m = 1; m < kNumMutations; ++m) QTest::newRow(name_of(static_cast<Mutation>(m))) << m;
}

void TestMutations::everyFaultIsFound() {
  QFETCH(int, mutation);
  active_mutation = static_cast<Mutation>(mutation);
  FuzzBatch batch = run_seeds(1, kMostCases, kStepsPerCase);
  QVERIFY(batch.failed);
  qInfo("%s, after %lld steps", batch.what.c_str(),
        static_cast<long long>(batch.tallies[Tally::kSteps]));
}

void TestMutations::aFailingCaseShrinksToAFewOperations() {
  active_mutation = Mutation::kWrongSwapTarget;
  const FuzzBatch batch = run_seeds(1, kMostCases, kStepsPerCase);
  QVERIFY(batch.failed);
  const FuzzCase least = shrink(random_case(batch.seed, kStepsPerCase));
  qInfo("%s", describe(least).c_str());
  QVERIFY(run_isolated(least).failed);
  QVERIFY(least.ops.size() <= 15);
  active_mutation = Mutation::kNone;
  const FuzzFailure without = run_isolated(least);
  QVERIFY2(!without.failed, without.what.c_str());
}

QUIRE_TEST(TestMutations)
#include "tst_mutations.moc"
