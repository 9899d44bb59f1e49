#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

// Fairness, preemption and admission: what serving engines are known to get wrong.
namespace {

EngineConfig chunked(int num_blocks, int alone, int contended) {
  EngineConfig config = small_config(num_blocks, 4);
  config.prefill_chunk = {alone, contended};
  return config;
}

int scheduled_for(const StepRecord& record, std::int64_t id) {
  for (const ScheduledWork& work : record.scheduled)
    if (work.request == id_of(id)) return work.num_tokens;
  return 0;
}

// Three streams, far from their end.
void start_streams(Harness& engine) {
  for (int id = 1; id <= 3; ++id) QVERIFY(engine.add(id, 5, 400, 11 * id).ok());
  engine.step();
}

}  // namespace

class TestScenariosScheduling : public QObject {
  Q_OBJECT
 private slots:
  void aLongPromptMovesOnInEveryStepBesideStreams();
  void streamsGetATokenInEveryStepWhateverArrives();
  void aLongPromptDoesNotHoldUpShortOnes();
  void aPromptTakesNoMoreThanItsShareBesideAStream();
  void aResumedRequestIsNotPreemptedAgainForTheSameBlocks();
  void everybodyRunsAgainOnceThePressureEnds();
  void aPromptLargerThanThePoolIsRefusedWithTheNumbers();
  void whatThePoolHoldsIsServedHoweverLarge();
  void somethingAlwaysRunsWhenSomethingWaits();
  void twoRequestsWithDraftsNeverBlockEachOther();
  void aStepVisitsEveryRequestOnce();
  void noTokenIsLostOrRepeatedAroundAPreemption_data();
  void noTokenIsLostOrRepeatedAroundAPreemption();
  void nobodyIsDisplacedForARequestThatTheLimitsKeepOut();
  void aWaitIsToldOnceAcrossACancelledStep();
};

void TestScenariosScheduling::aLongPromptMovesOnInEveryStepBesideStreams() {
  Harness engine(chunked(1000, 64, 8));
  start_streams(engine);
  QVERIFY(engine.add(9, 200, 2, 50).ok());
  for (int i = 0; i < 25; ++i) {
    engine.step();
    QCOMPARE(scheduled_for(engine.sink.last(), 9), 8);
    QCOMPARE(engine.sink.last().sampled.size(), i < 24 ? std::size_t{3} : std::size_t{4});
  }
}

void TestScenariosScheduling::streamsGetATokenInEveryStepWhateverArrives() {
  EngineConfig config = chunked(1000, 0, 0);
  config.max_num_batched_tokens = 32;
  Harness engine(config);
  start_streams(engine);
  for (int i = 0; i < 60; ++i) {
    if (i % 2 == 0) QVERIFY(engine.add(10 + i, 60, 3, i).ok());
    engine.step();
    for (int id = 1; id <= 3; ++id) QCOMPARE(scheduled_for(engine.sink.last(), id), 1);
  }
}

void TestScenariosScheduling::aLongPromptDoesNotHoldUpShortOnes() {
  EngineConfig config = chunked(1000, 0, 0);
  config.max_num_batched_tokens = 32;
  config.long_prefill_token_threshold = 16;
  Harness engine(config);
  QVERIFY(engine.add(1, 900, 2).ok());
  QVERIFY(engine.add(2, 9, 2, 50).ok());
  engine.step();
  QCOMPARE(plan_text(engine.sink.last()),
           std::string("1:prefill 16 | 2:prefill 9 | admit 1 | admit 2"));
  QCOMPARE(engine.answers[2].size(), std::size_t{1});
}

void TestScenariosScheduling::aPromptTakesNoMoreThanItsShareBesideAStream() {
  Harness engine(chunked(1000, 64, 8));
  start_streams(engine);
  for (int id = 10; id < 14; ++id) QVERIFY(engine.add(id, 100, 2, id).ok());
  for (int i = 0; i < 40; ++i) {
    engine.step();
    QVERIFY(engine.sink.last().shape.prefill_tokens <= 8);
  }
}

void TestScenariosScheduling::aResumedRequestIsNotPreemptedAgainForTheSameBlocks() {
  Harness engine(small_config(16, 4));
  QVERIFY(engine.add(1, 20, 40).ok());
  QVERIFY(engine.add(2, 20, 40, 50).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  // One outgrows the other once; ping-pong would preempt at every block.
  QCOMPARE(engine.core.counters().preemptions, std::int64_t{1});
}

void TestScenariosScheduling::everybodyRunsAgainOnceThePressureEnds() {
  Harness engine(small_config(24, 4));
  for (int id = 1; id <= 3; ++id) QVERIFY(engine.add(id, 12, 40, 20 * id).ok());
  QVERIFY(engine.add(4, 12, 12, 90).ok());
  while (engine.core.counters().preemptions == 0 && engine.core.has_unfinished()) engine.step();
  QVERIFY(engine.core.counters().preemptions > 0);
  for (int id = 1; id <= 2; ++id) engine.core.abort_request(id_of(id));
  engine.step();
  QCOMPARE(engine.core.num_waiting(), 0);
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestScenariosScheduling::aPromptLargerThanThePoolIsRefusedWithTheNumbers() {
  Harness engine(small_config(8, 4));  // of a model with a far longer context
  const Status refused = engine.add(1, 40, 4);
  QVERIFY(!refused.ok());
  QCOMPARE(refused.error().code, ErrorCode::kContextLengthExceeded);
  QVERIFY(refused.error().message.find("40 tokens") != std::string::npos);
  QVERIFY(refused.error().message.find("32 tokens that the KV pool holds") != std::string::npos);
  QVERIFY(engine.add(2, 8, 4).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestScenariosScheduling::whatThePoolHoldsIsServedHoweverLarge() {
  EngineConfig config = small_config(8, 4);
  config.max_num_batched_tokens = 5;
  Harness engine(config);
  for (int id = 1; id <= 4; ++id) QVERIFY(engine.add(id, 31, -1, 9 * id).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  for (int id = 1; id <= 4; ++id) QCOMPARE(engine.ended[id].reason, FinishReason::kLength);
}

void TestScenariosScheduling::somethingAlwaysRunsWhenSomethingWaits() {
  EngineConfig config = small_config(8, 4);
  config.max_num_seqs = 1;
  config.max_num_partial_prefills = 1;
  config.max_num_batched_tokens = 3;
  for (const SchedulingPolicy policy :
       {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kLpm}) {
    config.policy = policy;
    Harness engine(config);
    for (int id = 1; id <= 5; ++id) {
      engine.next_priority = id % 3;
      QVERIFY(engine.add(id, 4 + 5 * id, 4, id).ok());
    }
    while (engine.core.has_unfinished()) {
      engine.step();
      QVERIFY(!engine.sink.last().scheduled.empty());
    }
    QVERIFY(engine.answers_match());
  }
}

// Four blocks and three in a pool of seven, each about to need another for a draft.
void TestScenariosScheduling::twoRequestsWithDraftsNeverBlockEachOther() {
  class Drafts : public Drafter {
    std::vector<TokenId> propose(const Request&) override { return {1, 2, 3, 4, 5}; }
  } drafter;
  Harness engine(small_config(7, 4));
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 15, 8).ok());
  QVERIFY(engine.add(2, 11, 8, 50).ok());
  while (engine.core.has_unfinished()) {
    engine.step();
    QVERIFY(!engine.sink.last().scheduled.empty());
  }
  QVERIFY(engine.answers_match());
}

void TestScenariosScheduling::aStepVisitsEveryRequestOnce() {
  Harness engine(small_config(9, 4));
  for (int id = 1; id <= 6; ++id) QVERIFY(engine.add(id, 5 + id, 12, 7 * id).ok());
  while (engine.core.has_unfinished()) {
    engine.step();
    std::map<RequestId, int> visits;
    for (const ScheduledWork& work : engine.sink.last().scheduled) ++visits[work.request];
    for (const Preemption& preemption : engine.sink.last().preempted) ++visits[preemption.victim];
    for (const auto& [id, count] : visits) QCOMPARE(count, 1);
  }
  QVERIFY(engine.core.counters().preemptions > 0);
}

void TestScenariosScheduling::noTokenIsLostOrRepeatedAroundAPreemption_data() {
  QTest::addColumn<int>("mode");
  QTest::newRow("recompute") << static_cast<int>(PreemptionMode::kRecompute);
  QTest::newRow("swap") << static_cast<int>(PreemptionMode::kSwap);
}

void TestScenariosScheduling::noTokenIsLostOrRepeatedAroundAPreemption() {
  QFETCH(int, mode);
  EngineConfig config = small_config(10, 4);
  config.preemption_mode = static_cast<PreemptionMode>(mode);
  config.num_swap_blocks = 20;
  Harness engine(config);
  for (int id = 1; id <= 4; ++id) QVERIFY(engine.add(id, 9, 15, 13 * id).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.core.counters().preemptions > 0);
  std::map<std::int64_t, std::vector<TokenId>> told;
  for (const auto& record : engine.sink.records)
    for (const SampledToken& token : record->sampled)
      told[index(token.request)].push_back(token.token);
  for (int id = 1; id <= 4; ++id) {
    QCOMPARE(told[id], engine.expected(id));
    QCOMPARE(engine.answers[id], engine.expected(id));
  }
}

// Its prompt must wait for a step without the other prompt: taking a seat now would gain nothing.
void TestScenariosScheduling::nobodyIsDisplacedForARequestThatTheLimitsKeepOut() {
  EngineConfig config = chunked(64, 8, 8);
  config.policy = SchedulingPolicy::kPriority;
  config.max_num_seqs = 3;
  Harness engine(config);
  engine.next_priority = 5;
  QVERIFY(engine.add(1, 3, 30).ok());
  QVERIFY(engine.add(2, 3, 30, 50).ok());
  engine.step();
  engine.next_priority = 0;
  QVERIFY(engine.add(3, 24, 4, 70).ok());
  engine.step();
  QVERIFY(engine.add(4, 5, 4, 90).ok());
  engine.step();  // 3 takes all of the step's prefill tokens
  QCOMPARE(plan_text(engine.sink.last()), std::string("3:prefill 8 | 1:decode 1 | 2:decode 1"));
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QVERIFY(engine.core.counters().displacements > 0);
}

void TestScenariosScheduling::aWaitIsToldOnceAcrossACancelledStep() {
  EngineConfig config = small_config(64, 4);
  config.max_num_seqs = 1;
  Harness engine(config);
  QVERIFY(engine.add(1, 5, 9).ok());
  QVERIFY(engine.add(2, 5, 9, 50).ok());
  engine.core.cancel_step();
  engine.step();
  const auto told = engine.sink.last().waits;
  QCOMPARE(told.size(), std::size_t{2});
  engine.core.cancel_step();
  engine.step();
  QVERIFY(engine.sink.last().waits.empty());
}

QUIRE_TEST(TestScenariosScheduling)
#include "tst_scenarios_scheduling.moc"
