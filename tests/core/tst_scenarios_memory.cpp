#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

// Leaks, aborts, double frees and full pools: what serving engines are known to get wrong.
namespace {

// Always five tokens of nonsense.
class WrongDrafter : public Drafter {
  std::vector<TokenId> propose(const Request& request) override {
    const TokenId last = request.token_ids.back();
    return {(last + 1) % 101, (last + 2) % 101, (last + 3) % 101, 4, 5};
  }
};

EngineConfig swapping(int num_blocks, int num_swap_blocks) {
  EngineConfig config = small_config(num_blocks, 4);
  config.preemption_mode = PreemptionMode::kSwap;
  config.num_swap_blocks = num_swap_blocks;
  return config;
}

// Adds `count` requests that cannot all stay, and steps until one of them had to go.
void press(Harness& engine, int count) {
  for (int id = 1; id <= count; ++id) QVERIFY(engine.add(id, 8, 20, 13 * id).ok());
  while (engine.core.counters().preemptions == 0 && engine.core.has_unfinished()) engine.step();
  QVERIFY(engine.core.counters().preemptions > 0);
}

RequestId first_with(const Harness& engine, RequestStatus status) {
  for (const RequestView& view : engine.core.snapshot().requests)
    if (view.status == status) return view.id;
  return kNoRequest;
}

}  // namespace

class TestScenariosMemory : public QObject {
  Q_OBJECT
 private slots:
  void draftSlotsAreFreedWithTheirRequest();
  void aTableIsAsLongAsWhatIsComputedAfterRejectedDrafts();
  void thePoolEquationHoldsInEveryRecord();
  void whoeverEndsIsReleasedOnce();
  void aQueuedRequestOfAGoneClientNeverRuns();
  void anAbortedPromptIsComputedNoFurther();
  void cancellingOneRequestDisturbsNoOther();
  void anAbortWhileSwappedOutFreesBothPools();
  void aSwappedRequestHoldsNoPoolBlocks();
  void aFullPoolEndsNobodyWithAnError();
  void blocksAreReadBeforeTheirNextOwnerWritesThem();
  void aFailedAdmissionTouchesNothing();
  void aFailedMoveEndsEveryRequest();
  void afterEverybodyEndsThePoolIsAsItBegan();
};

void TestScenariosMemory::draftSlotsAreFreedWithTheirRequest() {
  WrongDrafter drafter;
  Harness engine(small_config(32, 4));
  engine.core.set_drafter(&drafter);
  for (int round = 0; round < 8; ++round) {
    QVERIFY(engine.add(2 * round + 1, 7 + round, 9, round).ok());
    QVERIFY(engine.add(2 * round + 2, 6, 40, 50 + round).ok());
    for (int i = 0; i < 5; ++i) engine.step();
    engine.core.abort_request(id_of(2 * round + 2));  // with drafts in hand
    QVERIFY(engine.run());
    QVERIFY(engine.all_blocks_free());
  }
  QVERIFY(engine.core.counters().draft_tokens > engine.core.counters().accepted_draft_tokens);
  QVERIFY(engine.answers_match());
}

void TestScenariosMemory::aTableIsAsLongAsWhatIsComputedAfterRejectedDrafts() {
  WrongDrafter drafter;
  Harness engine(small_config(32, 2));
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 7, 12).ok());
  while (engine.core.has_unfinished()) {
    engine.step();
    for (const RequestView& view : engine.core.snapshot().requests)
      QCOMPARE(static_cast<int>(view.block_table.size()), (view.num_computed_tokens + 1) / 2);
  }
}

void TestScenariosMemory::thePoolEquationHoldsInEveryRecord() {
  Harness engine(swapping(10, 6));
  press(engine, 5);
  QVERIFY(engine.run());
  for (const auto& record : engine.sink.records) {
    QVERIFY(record->num_cached_blocks <= record->num_free_blocks);
    QVERIFY(record->num_free_blocks <= record->num_blocks);
    if (record->num_running == 0) QCOMPARE(record->num_free_blocks, record->num_blocks);
  }
}

void TestScenariosMemory::whoeverEndsIsReleasedOnce() {
  std::map<std::int64_t, int> released;
  Harness engine(small_config(10, 4));
  engine.core.set_on_finish(
      [&](const Request& request, std::span<const BlockId>) { ++released[index(request.id)]; });
  press(engine, 5);
  QVERIFY(engine.core.abort_request(id_of(3)));
  QVERIFY(!engine.core.abort_request(id_of(3)));
  while (engine.core.has_unfinished()) {
    engine.step();
    for (const FinishRecord& finish : engine.sink.last().finished)
      QVERIFY(!engine.core.abort_request(finish.request));  // in the step that ended it
  }
  for (int id = 1; id <= 5; ++id) QCOMPARE(released[id], 1);
}

void TestScenariosMemory::aQueuedRequestOfAGoneClientNeverRuns() {
  EngineConfig config = small_config(32, 4);
  config.max_num_seqs = 1;
  Harness engine(config);
  for (int id = 1; id <= 3; ++id) QVERIFY(engine.add(id, 6, 4, 9 * id).ok());
  engine.step();
  QVERIFY(engine.core.abort_request(id_of(2)));
  QVERIFY(engine.run());
  for (const auto& record : engine.sink.records)
    for (const ScheduledWork& work : record->scheduled) QVERIFY(work.request != id_of(2));
  QVERIFY(engine.answers[2].empty());
  QVERIFY(engine.answers_match());
}

void TestScenariosMemory::anAbortedPromptIsComputedNoFurther() {
  EngineConfig config = small_config(64, 4);
  config.max_num_batched_tokens = 8;
  Harness engine(config);
  QVERIFY(engine.add(1, 100, 4).ok());
  engine.step();
  QVERIFY(engine.core.abort_request(id_of(1)));
  QVERIFY(engine.all_blocks_free());
  const int launches = engine.runner.launches;
  engine.step();
  QCOMPARE(engine.runner.launches, launches);
}

void TestScenariosMemory::cancellingOneRequestDisturbsNoOther() {
  for (int victim = 1; victim <= 4; ++victim) {
    Harness engine(small_config(12, 4));
    for (int id = 1; id <= 4; ++id) QVERIFY(engine.add(id, 9, 10, 3).ok());  // all share a prefix
    for (int i = 0; i < 3; ++i) engine.step();
    engine.core.cancel_step();  // as a client that leaves in mid-step makes it
    engine.step();
    QVERIFY(engine.core.abort_request(id_of(victim)));
    QVERIFY(engine.run());
    QVERIFY(engine.answers_match());
    QCOMPARE(engine.ended.size(), std::size_t{3});
  }
}

void TestScenariosMemory::anAbortWhileSwappedOutFreesBothPools() {
  Harness engine(swapping(10, 8));
  press(engine, 4);
  const RequestId swapped = first_with(engine, RequestStatus::kSwapped);
  QVERIFY(swapped != kNoRequest);
  for (int id = 1; id <= 4; ++id)
    if (id_of(id) != swapped) engine.core.abort_request(id_of(id));
  QVERIFY(engine.core.abort_request(swapped));
  QVERIFY(!engine.core.has_unfinished());
  QVERIFY(engine.all_blocks_free());
  engine.core.check_integrity();  // the host pool is all free when nobody is left
}

void TestScenariosMemory::aSwappedRequestHoldsNoPoolBlocks() {
  Harness engine(swapping(10, 8));
  press(engine, 4);
  for (const RequestView& view : engine.core.snapshot().requests) {
    if (view.status != RequestStatus::kSwapped) continue;
    QVERIFY(view.block_table.empty());
    QVERIFY(view.num_computed_tokens > 0);
    QVERIFY(view.wait.reason != WaitReason::kNone || view.wait.shortfall == 0);
  }
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestScenariosMemory::aFullPoolEndsNobodyWithAnError() {
  for (int blocks = 5; blocks <= 12; ++blocks) {
    Harness engine(small_config(blocks, 4));
    for (int id = 1; id <= 8; ++id) QVERIFY(engine.add(id, 11, 8, 5 * id).ok());
    QVERIFY(engine.run());
    QVERIFY(engine.answers_match());
    for (int id = 1; id <= 8; ++id) QCOMPARE(engine.ended[id].reason, FinishReason::kLength);
  }
}

// What goes to the host in a step is taken from blocks that others write in the same step.
void TestScenariosMemory::blocksAreReadBeforeTheirNextOwnerWritesThem() {
  Harness engine(swapping(8, 30));
  for (int id = 1; id <= 5; ++id) QVERIFY(engine.add(id, 7, 16, 13 * id).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.core.counters().blocks_swapped_in > 0);
  QVERIFY(engine.answers_match());
}

void TestScenariosMemory::aFailedAdmissionTouchesNothing() {
  Harness engine(small_config(10, 4));
  QVERIFY(engine.add(1, 20, 3).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.add(2, 24, 8, 50).ok());
  engine.step();
  QVERIFY(engine.add(3, 22, 4).ok());  // five of its blocks are cached, but one more is not free
  const EngineSnapshot before = engine.core.snapshot();
  const EngineCounters counters = engine.core.counters();
  engine.step();
  QCOMPARE(engine.core.num_waiting(), 1);
  const EngineSnapshot after = engine.core.snapshot();
  for (std::size_t b = 0; b < before.blocks.size(); ++b)
    QCOMPARE(after.blocks[b].owner == id_of(3), false);
  QCOMPARE(engine.core.counters().prefix_cache_queries, counters.prefix_cache_queries);
  QVERIFY(after.requests.back().block_table.empty());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestScenariosMemory::aFailedMoveEndsEveryRequest() {
  Harness engine(swapping(10, 8));
  engine.runner.moves_fail = [] { return true; };
  for (int id = 1; id <= 4; ++id) QVERIFY(engine.add(id, 8, 20, 13 * id).ok());
  bool thrown = false;
  while (engine.core.has_unfinished() && !thrown) {
    try {
      engine.step();
    } catch (const DeviceError&) {
      thrown = true;
    }
  }
  QVERIFY(thrown);
  QVERIFY(!engine.core.has_unfinished());
  QCOMPARE(engine.sink.last().outcome, StepOutcome::kFailed);
  QVERIFY(engine.all_blocks_free());
}

void TestScenariosMemory::afterEverybodyEndsThePoolIsAsItBegan() {
  for (const PrefixIndexKind kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    EngineConfig config = swapping(12, 5);
    config.prefix_index = kind;
    Harness engine(config);
    for (int round = 0; round < 3; ++round) {
      for (int id = 1; id <= 6; ++id)
        QVERIFY(engine.add(10 * round + id, 6 + 2 * id, 9, 3 * (id % 2)).ok());
      engine.step();
      engine.core.abort_request(id_of(10 * round + 2));
      QVERIFY(engine.run());
      engine.core.reset_prefix_cache();
      const StepRecord& last = engine.sink.last();
      QCOMPARE(last.num_free_blocks, 12);
      QCOMPARE(last.num_cached_blocks, 0);
      QCOMPARE(last.num_running + last.num_waiting, 0);
    }
    QVERIFY(engine.answers_match());
  }
}

QUIRE_TEST(TestScenariosMemory)
#include "tst_scenarios_memory.moc"
