#include "tests/core/scheduler_bench.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

EngineConfig cheapest(EngineConfig config) {
  config.victim = VictimChoice::kCheapest;
  return config;
}

int num_cached(Bench& bench, Request& request) {
  return static_cast<int>(
      bench.blocks.find_cached_prefix(request, request.num_tokens() - 1).blocks.size());
}

}  // namespace

class TestScheduler : public QObject {
  Q_OBJECT
 private slots:
  void schedulesRunningRequestsFirst();
  void splitsAPromptByTheBudget();
  void capsChunksByTheThreshold();
  void admitsNoMoreThanMaxNumSeqs();
  void adoptsBlocksPublishedEarlierInTheSameStep();
  void preemptsTheNewestWhenOutOfBlocks();
  void aRequestMayHaveToGiveWayItself();
  void aPreemptedRequestReturnsFirstAndKeepsItsOrder();
  void admitsOnlyWhatFitsWhole();
  void aResumedRequestIsNotPreemptedForTheSameBlocks();
  void aRequestWithoutTokensIsSkipped();
  void withoutChunkingAPromptWaitsForTheWholeBudget();
  void aVictimAlreadyScheduledLosesItsShare();
  void rollbackRestoresEverythingButPreemptions();
  void everyWaitHasAReason();
};

void TestScheduler::schedulesRunningRequestsFirst() {
  Bench bench(config_of(64, 16));
  bench.add(1, 5);
  QCOMPARE(bench.step(), std::string("1:prefill 5 | admit 1"));
  bench.add(2, 20, 50);
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:prefill 15 | admit 2"));
  bench.add(3, 3, 70);
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:prefill 5 | 3:prefill 3 | admit 3"));
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:decode 1 | 3:decode 1"));
}

void TestScheduler::splitsAPromptByTheBudget() {
  Bench bench(config_of(64, 8));
  bench.add(1, 20);
  QCOMPARE(bench.step(), std::string("1:prefill 8 | admit 1"));
  QCOMPARE(bench.step(), std::string("1:prefill 8"));
  QCOMPARE(bench.step(), std::string("1:prefill 4"));
  QCOMPARE(bench.step(), std::string("1:decode 1"));
}

void TestScheduler::capsChunksByTheThreshold() {
  EngineConfig config = config_of(64, 16);
  config.long_prefill_token_threshold = 6;
  Bench bench(config);
  bench.add(1, 20);
  bench.add(2, 7, 50);
  bench.add(3, 9, 80);
  QCOMPARE(bench.step(), std::string("1:prefill 6 | 2:prefill 6 | 3:prefill 4 | admit 1 | "
                                     "admit 2 | admit 3"));
  QCOMPARE(bench.step(), std::string("1:prefill 6 | 2:prefill 1 | 3:prefill 5"));
}

void TestScheduler::admitsNoMoreThanMaxNumSeqs() {
  EngineConfig config = config_of(64, 64);
  config.max_num_seqs = 2;
  Bench bench(config);
  Request& a = bench.add(1, 4);
  bench.add(2, 4, 50);
  bench.add(3, 4, 80);
  QCOMPARE(bench.step(), std::string("1:prefill 4 | 2:prefill 4 | admit 1 | admit 2"));
  QCOMPARE(bench.wait(0), std::string("seqs 1"));
  bench.finish(a);
  QCOMPARE(bench.wait(0), std::string("none 0"));
  QCOMPARE(bench.step(), std::string("2:decode 1 | 3:prefill 4 | admit 3"));
}

void TestScheduler::adoptsBlocksPublishedEarlierInTheSameStep() {
  Bench bench(config_of(64, 64));
  for (int id = 1; id <= 4; ++id) bench.add(id, 18);
  QCOMPARE(bench.step(),
           std::string("1:prefill 18 | 2:prefill 2 cached 16 | 3:prefill 2 cached 16 | "
                       "4:prefill 2 cached 16 | admit 1 | admit 2 | admit 3 | admit 4"));
  QCOMPARE(bench.blocks.num_free(), 64 - 4 - 4);
  QCOMPARE(bench.requests[3]->num_cached_tokens, 16);
}

void TestScheduler::preemptsTheNewestWhenOutOfBlocks() {
  Bench bench(config_of(4, 64));
  bench.add(1, 7);
  Request& b = bench.add(2, 7, 50);
  bench.step();
  bench.step();  // both tables are full
  QCOMPARE(bench.step(), std::string("1:decode 1 | preempt 2 for 1"));
  QCOMPARE(b.status, RequestStatus::kPreempted);
  QCOMPARE(b.num_preemptions, 1);
  QCOMPARE(b.num_computed_tokens, 0);
  QVERIFY(bench.scheduler.waiting().front() == &b);
  bench.finish(*bench.requests[0]);
  // Its first block is still cached.
  QCOMPARE(bench.step(), std::string("2:recompute 5 cached 4 | admit 2"));
  QCOMPARE(b.num_cached_tokens, 0);  // counts the first admission only
}

void TestScheduler::aRequestMayHaveToGiveWayItself() {
  Bench bench(config_of(4, 64));
  bench.add(1, 5);
  bench.add(2, 8, 50);
  bench.step();
  QCOMPARE(bench.step(), std::string("1:decode 1 | preempt 2 for 2"));
  QCOMPARE(bench.wait(0), std::string("blocks 1"));
}

void TestScheduler::aPreemptedRequestReturnsFirstAndKeepsItsOrder() {
  Bench bench(config_of(6, 64));
  Request& a = bench.add(1, 8);
  bench.add(2, 4, 50);
  bench.add(3, 4, 70);
  bench.add(4, 4, 90);
  QCOMPARE(bench.step(), std::string("1:prefill 8 | 2:prefill 4 | 3:prefill 4 | 4:prefill 4 | "
                                     "admit 1 | admit 2 | admit 3 | admit 4"));
  bench.add(5, 4, 30);
  // One free block goes to 1; 2 takes 4's, which leaves none for 3.
  QCOMPARE(bench.step(),
           std::string("1:decode 1 | 2:decode 1 | preempt 4 for 2 | preempt 3 for 3"));
  QCOMPARE(index(bench.scheduler.waiting()[0]->id), 3);
  QCOMPARE(index(bench.scheduler.waiting()[1]->id), 4);
  QCOMPARE(index(bench.scheduler.waiting()[2]->id), 5);
  bench.finish(a);
  QCOMPARE(bench.step(),
           std::string("2:decode 1 | 3:decode 1 cached 4 | 4:recompute 5 | admit 3 | admit 4"));
}

void TestScheduler::admitsOnlyWhatFitsWhole() {
  Bench bench(config_of(6, 8));
  Request& a = bench.add(1, 12);
  bench.add(2, 16, 50);
  QCOMPARE(bench.step(), std::string("1:prefill 8 | admit 1"));
  // Three blocks are free but for the one the rest of 1 needs, and 2 needs four.
  QCOMPARE(bench.step(), std::string("1:prefill 4"));
  QCOMPARE(bench.wait(0), std::string("blocks 2"));  // 1's next token needs a block too
  bench.finish(a);
  QCOMPARE(bench.step(), std::string("2:prefill 8 | admit 2"));
}

// A decoding request takes the last block again and again; the one it displaced must wait until
// all of its input fits instead of being resumed and displaced in turn.
void TestScheduler::aResumedRequestIsNotPreemptedForTheSameBlocks() {
  Bench bench(config_of(8, 8));
  Request& a = bench.add(1, 8);
  Request& b = bench.add(2, 20, 50);
  for (int i = 0; i < 20; ++i) bench.step();
  QCOMPARE(b.num_preemptions, 1);
  QCOMPARE(b.status, RequestStatus::kPreempted);
  bench.finish(a);
  for (int i = 0; i < 5; ++i) bench.step();
  QCOMPARE(b.num_preemptions, 1);
  QVERIFY(b.num_output_tokens() > 0);
}

void TestScheduler::aRequestWithoutTokensIsSkipped() {
  Bench bench(config_of(64, 16));
  bench.add(1, 4);
  Request& b = bench.add(2, 4, 50);
  bench.add(3, 4, 80);
  bench.step();
  b.token_ids.pop_back();  // its newest token is still in flight
  const Schedule schedule = bench.scheduler.schedule();
  QCOMPARE(bench.text(schedule), std::string("1:decode 1 | 3:decode 1"));
  bench.scheduler.commit(schedule);
}

void TestScheduler::withoutChunkingAPromptWaitsForTheWholeBudget() {
  EngineConfig config = config_of(64, 16);
  config.enable_chunked_prefill = false;
  config.long_prefill_token_threshold = 4;
  Bench bench(config);
  bench.add(1, 10);
  bench.add(2, 10, 50);
  QCOMPARE(bench.step(), std::string("1:prefill 10 | admit 1"));
  QCOMPARE(bench.wait(0), std::string("budget 4"));
  QCOMPARE(bench.step(), std::string("1:decode 1 | 2:prefill 10 | admit 2"));
}

void TestScheduler::aVictimAlreadyScheduledLosesItsShare() {
  Bench other(cheapest(config_of(4, 64)));
  Request& c = other.add(1, 6);
  other.add(2, 7, 50);
  other.step();
  other.step();
  Request probe(id_of(9), c.token_ids, {});
  probe.token_ids.push_back(1);
  QCOMPARE(c.num_tokens(), 8);
  const Schedule schedule = other.scheduler.schedule();
  // 1 was scheduled and published its second block before 2 displaced it.
  QCOMPARE(other.text(schedule), std::string("2:decode 1 | preempt 1 for 2"));
  QCOMPARE(schedule.budget_left, 63);
  QCOMPARE(num_cached(other, probe), 1);
  other.scheduler.commit(schedule);
  other.blocks.check_integrity();
}

void TestScheduler::rollbackRestoresEverythingButPreemptions() {
  Bench bench(config_of(8, 64));
  Request& a = bench.add(1, 10);
  bench.step();
  a.token_ids = prompt_of(15);
  Request& b = bench.add(2, 13);
  Request& c = bench.add(3, 2, 70);
  for (int i = 0; i < 3; ++i) {
    QCOMPARE(bench.rolled_back_step(),
             std::string("1:prefill 5 | 2:prefill 1 cached 12 | 3:prefill 2 | admit 2 | admit 3"));
    QCOMPARE(a.num_computed_tokens, 10);
    QCOMPARE(b.num_computed_tokens, 0);
    QCOMPARE(b.num_cached_tokens, 0);
    QCOMPARE(b.status, RequestStatus::kWaiting);
    QCOMPARE(bench.scheduler.waiting().size(), std::size_t{2});
    QVERIFY(bench.scheduler.waiting()[0] == &b && bench.scheduler.waiting()[1] == &c);
    QCOMPARE(bench.blocks.table(a.id).size(), std::size_t{3});
    QCOMPARE(num_cached(bench, b), 2);
  }
  bench.step();
  QCOMPARE(b.num_cached_tokens, 12);
}

void TestScheduler::everyWaitHasAReason() {
  Bench bench(config_of(8, 8));
  bench.add(1, 12);
  bench.add(2, 4, 50);
  bench.add(3, 40, 80);
  QCOMPARE(bench.wait(0), std::string("none 0"));
  QCOMPARE(bench.wait(2), std::string("behind 2"));
  bench.step();
  QCOMPARE(bench.wait(0), std::string("budget 1"));
  QCOMPARE(bench.wait(1), std::string("behind 1"));
  bench.step();
  QCOMPARE(bench.wait(0), std::string("blocks 8"));
}

QUIRE_TEST(TestScheduler)
#include "tst_scheduler.moc"
