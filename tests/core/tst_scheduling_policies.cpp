#include "tests/core/scheduler_bench.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

EngineConfig with_policy(EngineConfig config, SchedulingPolicy policy) {
  config.policy = policy;
  return config;
}

EngineConfig priority_config(int num_blocks, int max_num_seqs) {
  EngineConfig config = with_policy(config_of(num_blocks, 64), SchedulingPolicy::kPriority);
  config.max_num_seqs = max_num_seqs;
  return config;
}

std::string queue(const Bench& bench) {
  std::string text;
  for (const Request* request : bench.scheduler.waiting())
    text += (text.empty() ? "" : " ") + std::to_string(index(request->id));
  return text;
}

}  // namespace

class TestSchedulingPolicies : public QObject {
  Q_OBJECT
 private slots:
  void lowerPriorityNumbersAreAdmittedFirst();
  void aPreemptedRequestStaysAheadOfEqualsThatNeverRan();
  void anArrivalOfHigherPriorityTakesASeat();
  void equalPriorityDisplacesNobody();
  void displacesOnlyAsManyAsItNeeds();
  void displacesNobodyWhenThatIsNotEnough();
  void aDisplacementIsBounded();
  void onlyTheDisplacingRequestIsAdmitted();
  void blocksAreTakenFromTheLowestPriority();
  void theBudgetGoesToTheHigherPriorityFirst();
  void theCheapestVictimLosesLeastPerBlock();
  void longestCachedPrefixIsAdmittedFirst();
  void nobodyIsOvertakenMoreOftenThanTheBound();
  void aRolledBackAdmissionOvertookNobody();
  void changingThePolicyReordersTheQueue();
  void partialPrefillsAreCapped();
};

void TestSchedulingPolicies::lowerPriorityNumbersAreAdmittedFirst() {
  Bench bench(priority_config(64, 1));
  bench.add(1, 4, 3, 5);
  bench.add(2, 4, 20, 1);
  bench.add(3, 4, 50, 1);
  QCOMPARE(queue(bench), std::string("2 3 1"));
  QCOMPARE(bench.step(), std::string("2:prefill 4 | admit 2"));
}

void TestSchedulingPolicies::aPreemptedRequestStaysAheadOfEqualsThatNeverRan() {
  Bench bench(priority_config(64, 1));
  bench.add(2, 4, 3, 5);
  bench.step();
  bench.add(1, 4, 20, 5);
  bench.add(3, 4, 50, 1);
  QCOMPARE(bench.step(), std::string("3:prefill 4 | preempt 2 for 3 | admit 3"));
  QCOMPARE(queue(bench), std::string("2 1"));
}

void TestSchedulingPolicies::anArrivalOfHigherPriorityTakesASeat() {
  Bench bench(priority_config(64, 2));
  bench.add(1, 4, 3, 1);
  bench.add(2, 4, 20, 7);
  bench.step();
  Request& urgent = bench.add(3, 4, 50, 0);
  QCOMPARE(bench.step(), std::string("1:decode 1 | 3:prefill 4 | preempt 2 for 3 | admit 3"));
  QCOMPARE(bench.last.preempted[0].reason, PreemptReason::kPriority);
  QCOMPARE(bench.wait(0), std::string("seqs 1"));
  bench.finish(urgent);
  // Its whole block was cached; of its two tokens one is left to compute.
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:decode 1 cached 4 | admit 2"));
}

void TestSchedulingPolicies::equalPriorityDisplacesNobody() {
  Bench bench(priority_config(64, 1));
  bench.add(1, 4, 3, 2);
  bench.step();
  bench.add(2, 4, 50, 2);
  QCOMPARE(bench.step(), std::string("1:decode 1"));
}

void TestSchedulingPolicies::displacesOnlyAsManyAsItNeeds() {
  Bench bench(priority_config(9, 8));
  bench.add(1, 7, 3, 3);
  bench.add(2, 7, 20, 9);
  bench.add(3, 7, 50, 9);
  bench.step();
  QCOMPARE(bench.blocks.num_free(), 3);
  bench.add(4, 15, 80, 1);  // needs four blocks
  QCOMPARE(bench.step(),
           std::string("1:decode 1 | 2:decode 1 | 4:prefill 15 | preempt 3 for 4 | admit 4"));
}

void TestSchedulingPolicies::displacesNobodyWhenThatIsNotEnough() {
  Bench bench(priority_config(8, 8));
  bench.add(1, 15, 3, 0);
  bench.add(2, 7, 50, 9);
  bench.step();
  bench.add(3, 23, 80, 1);  // six blocks; 2's two and the two free ones are too few
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:decode 1"));
  QCOMPARE(bench.wait(0).substr(0, 6), std::string("blocks"));
}

void TestSchedulingPolicies::aDisplacementIsBounded() {
  EngineConfig config = priority_config(64, 1);
  config.max_displacements = 2;
  Bench bench(config);
  Request& slow = bench.add(1, 4, 3, 9);
  bench.step();
  for (int i = 0; i < 5; ++i) {
    Request& urgent = bench.add(10 + i, 4, 20 + i, 0);
    bench.step();
    if (urgent.status == RequestStatus::kRunning) bench.finish(urgent);
    bench.step();
  }
  QCOMPARE(slow.num_displaced, 2);
  QCOMPARE(slow.status, RequestStatus::kRunning);
}

void TestSchedulingPolicies::onlyTheDisplacingRequestIsAdmitted() {
  Bench bench(priority_config(64, 2));
  bench.add(1, 4, 3, 9);
  bench.add(2, 4, 20, 8);
  bench.step();
  bench.add(3, 4, 50, 0);
  bench.add(4, 4, 80, 0);
  QCOMPARE(bench.step(), std::string("2:decode 1 | 3:prefill 4 | preempt 1 for 3 | admit 3"));
  QCOMPARE(bench.step(), std::string("3:decode 1 | 4:prefill 4 | preempt 2 for 4 | admit 4"));
}

void TestSchedulingPolicies::blocksAreTakenFromTheLowestPriority() {
  Bench bench(priority_config(6, 8));
  bench.add(1, 7, 3, 5);
  bench.add(2, 7, 20, 9);
  bench.add(3, 7, 50, 1);
  bench.step();
  bench.step();  // all three tables are full
  QCOMPARE(bench.step(), std::string("3:decode 1 | 1:decode 1 | preempt 2 for 3"));
}

void TestSchedulingPolicies::theBudgetGoesToTheHigherPriorityFirst() {
  EngineConfig config = with_policy(config_of(64, 8), SchedulingPolicy::kPriority);
  config.prefill_chunk = {4, 4};
  Bench bench(config);
  bench.add(1, 12, 3, 9);
  bench.step();
  bench.add(2, 12, 50, 1);
  bench.config.prefill_chunk = {8, 8};
  QCOMPARE(bench.step(), std::string("1:prefill 8"));
  bench.config.prefill_chunk = {4, 4};
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:prefill 4 | admit 2"));
  QCOMPARE(bench.step(), std::string("2:prefill 4 | 1:decode 1"));
}

void TestSchedulingPolicies::theCheapestVictimLosesLeastPerBlock() {
  EngineConfig config = config_of(8, 64);
  config.victim = VictimChoice::kCheapest;
  Bench bench(config);
  bench.add(1, 5, 3);    // two blocks, five tokens: the least per block
  bench.add(2, 11, 50);  // three blocks
  bench.add(3, 12, 80);  // three blocks, the next token needs a fourth
  bench.step();
  QCOMPARE(bench.step(), std::string("2:decode 1 | 3:decode 1 | preempt 1 for 3"));
}

void TestSchedulingPolicies::longestCachedPrefixIsAdmittedFirst() {
  EngineConfig config = with_policy(config_of(64, 64), SchedulingPolicy::kLpm);
  config.max_num_seqs = 1;
  Bench bench(config);
  Request& first = bench.add(1, 17);
  bench.step();
  bench.add(2, 9, 50);
  bench.add(3, 17);
  bench.add(4, 9);
  bench.finish(first);
  QCOMPARE(bench.step(), std::string("3:prefill 1 cached 16 | admit 3"));
  QCOMPARE(bench.requests[1]->num_overtaken, 1);
  QCOMPARE(bench.requests[3]->num_overtaken, 0);
}

void TestSchedulingPolicies::nobodyIsOvertakenMoreOftenThanTheBound() {
  EngineConfig config = with_policy(config_of(64, 64), SchedulingPolicy::kLpm);
  config.max_num_seqs = 1;
  config.lpm_max_overtakes = 3;
  Bench bench(config);
  Request* running = &bench.add(1, 17);
  bench.step();
  Request& other = bench.add(2, 9, 50);
  int overtakers = 0;
  for (int id = 3; other.status == RequestStatus::kWaiting; ++id) {
    QVERIFY(id < 20);
    Request& hit = bench.add(id, 17);
    bench.finish(*running);
    bench.step();
    running = other.status == RequestStatus::kWaiting ? &hit : &other;
    overtakers += running == &hit ? 1 : 0;
  }
  QCOMPARE(overtakers, 3);
  QCOMPARE(bench.wait(0), std::string("seqs 1"));
}

void TestSchedulingPolicies::aRolledBackAdmissionOvertookNobody() {
  EngineConfig config = with_policy(config_of(64, 64), SchedulingPolicy::kLpm);
  config.max_num_seqs = 2;
  Bench bench(config);
  Request& first = bench.add(1, 17);
  bench.step();
  bench.finish(first);
  Request& other = bench.add(2, 9, 50);
  bench.add(3, 17);
  bench.add(4, 17);
  QCOMPARE(bench.rolled_back_step(),
           std::string("3:prefill 1 cached 16 | 4:prefill 1 cached 16 | admit 3 | admit 4"));
  QCOMPARE(other.num_overtaken, 0);
  QCOMPARE(queue(bench), std::string("2 3 4"));
}

void TestSchedulingPolicies::changingThePolicyReordersTheQueue() {
  EngineConfig config = config_of(64, 64);
  config.max_num_seqs = 1;
  Bench bench(config);
  bench.add(1, 4, 3, 5);
  bench.step();
  bench.add(2, 4, 20, 9);
  bench.add(3, 4, 50, 1);
  QCOMPARE(queue(bench), std::string("2 3"));
  bench.config.policy = SchedulingPolicy::kPriority;
  bench.scheduler.reorder();
  QCOMPARE(queue(bench), std::string("3 2"));
}

void TestSchedulingPolicies::partialPrefillsAreCapped() {
  EngineConfig config = config_of(64, 64);
  config.long_prefill_token_threshold = 4;
  config.max_num_partial_prefills = 1;
  Bench bench(config);
  bench.add(1, 10, 3);
  bench.add(2, 10, 50);
  QCOMPARE(bench.step(), std::string("1:prefill 4 | admit 1"));
  QCOMPARE(bench.step(), std::string("1:prefill 4"));
  QCOMPARE(bench.step(), std::string("1:prefill 2 | 2:prefill 4 | admit 2"));
  bench.add(3, 3, 80);  // whole in one step, so it is never partial
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:prefill 4 | 3:prefill 3 | admit 3"));
}

QUIRE_TEST(TestSchedulingPolicies)
#include "tst_scheduling_policies.moc"
