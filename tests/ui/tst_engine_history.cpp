#include "tests/support/test_main.h"
#include "ui/block_map.h"
#include "ui/engine_history.h"

using namespace quire;

namespace {

std::shared_ptr<StepRecord> makeRecord(std::uint64_t step, int numBlocks) {
  auto record = std::make_shared<StepRecord>();
  record->step = step;
  record->times.start_s = static_cast<double>(step);
  record->times.forward_us = 500000;
  record->num_blocks = record->num_free_blocks = numBlocks;
  record->token_budget = 64;
  return record;
}

EngineFrame frameOf(std::vector<std::shared_ptr<const StepRecord>> records) {
  EngineFrame frame;
  frame.records = std::move(records);
  return frame;
}

constexpr RequestId kFirst{1}, kSecond{2};

}  // namespace

class TestEngineHistory : public QObject {
  Q_OBJECT
 private slots:
  void whoCameSinceTheLastStepIsWaiting() {
    EngineHistory history;
    EngineFrame frame;
    frame.arrivals = {{kFirst, {}, 4, 0.5}};
    history.apply(frame);
    QCOMPARE(history.waiting(), 1);
    // A step that has the first begins at 1; the second comes later.
    auto record = makeRecord(1, 4);
    record->num_running = 1;
    frame = frameOf({record});
    frame.arrivals = {{kSecond, {}, 4, 1.2}};
    history.apply(frame);
    QCOMPARE(history.running(), 1);
    QCOMPARE(history.waiting(), 1);
    record = makeRecord(2, 4);
    record->num_running = 2;
    history.apply(frameOf({record}));
    QCOMPARE(history.waiting(), 0);
    // Counted by a snapshot already.
    EngineSnapshot snapshot;
    snapshot.step = 2;
    snapshot.requests.resize(1);
    snapshot.requests[0].id = RequestId{3};
    snapshot.requests[0].status = RequestStatus::kWaiting;
    history.rejoin(snapshot);
    QCOMPARE(history.waiting(), 1);
    frame = EngineFrame();
    frame.arrivals = {{RequestId{3}, {}, 4, 2.5}};
    history.apply(frame);
    QCOMPARE(history.waiting(), 1);
  }

  void blocksFollowTheirEvents() {
    EngineHistory history;
    auto record = makeRecord(1, 4);
    record->blocks = {{BlockEventKind::kAlloc, BlockId{0}, kFirst, {}},
                      {BlockEventKind::kPublish, BlockId{0}, kFirst, {}},
                      {BlockEventKind::kAdopt, BlockId{0}, kSecond, {}},
                      {BlockEventKind::kAlloc, BlockId{1}, kSecond, {}}};
    history.apply(frameOf({record}));
    QCOMPARE(history.blocks()[0].refCount, 2);
    QVERIFY(history.blocks()[0].hashed);
    QVERIFY(history.blocks()[0].owner == kFirst);
    QCOMPARE(history.sharedBlocks(), 1);

    auto later = makeRecord(2, 4);
    later->blocks = {{BlockEventKind::kRelease, BlockId{0}, kFirst, {}},
                     {BlockEventKind::kFree, BlockId{0}, kSecond, {}},
                     {BlockEventKind::kFree, BlockId{1}, kSecond, {}},
                     {BlockEventKind::kEvict, BlockId{0}, kNoRequest, {}}};
    history.apply(frameOf({later}));
    QCOMPARE(history.blocks()[0].refCount, 0);
    QVERIFY(!history.blocks()[0].hashed);
    QVERIFY(history.blocks()[0].evicted);
    QCOMPARE(history.sharedBlocks(), 0);
  }

  void stepBarsKeepEachRequestsShare() {
    EngineHistory history;
    auto record = makeRecord(1, 4);
    record->scheduled = {{kFirst, 1, WorkKind::kDecode, 20, 0},
                         {kSecond, 12, WorkKind::kPrefill, 16, 16}};
    record->admitted = {kSecond};
    history.apply(frameOf({record}));
    const StepBar& bar = history.steps().back();
    QCOMPARE(bar.decodeTokens, 1);
    QCOMPARE(bar.prefillTokens, 12);
    QCOMPARE(bar.cachedTokens, 16);
    QCOMPARE(bar.admissions, 1);
    QCOMPARE(bar.work.size(), std::size_t{2});
  }

  void lanesHaveAChunkPerPrefillAndOneLineOfDecodes() {
    EngineHistory history;
    std::vector<std::shared_ptr<const StepRecord>> records;
    for (int i = 1; i <= 5; ++i) {
      auto record = makeRecord(static_cast<std::uint64_t>(i), 4);
      record->scheduled = {
          {kFirst, i <= 2 ? 8 : 1, i <= 2 ? WorkKind::kPrefill : WorkKind::kDecode, 0, 0}};
      if (i >= 2) record->sampled = {{kFirst, 7}};
      if (i == 5) record->finished = {{kFirst, FinishReason::kStop, 4}};
      records.push_back(record);
    }
    history.apply(frameOf(records));
    const Lane* lane = history.lane(kFirst);
    QVERIFY(lane != nullptr);
    QCOMPARE(lane->segments.size(), std::size_t{3});
    QCOMPARE(lane->segments[2].tokens, 3);
    QCOMPARE(lane->outputTokens, 4);
    QVERIFY(!lane->live());
    QVERIFY(lane->firstTokenSeconds > lane->segments[0].endSeconds);
  }

  void anAbortBetweenStepsEndsTheLaneWithoutABar() {
    EngineHistory history;
    auto record = makeRecord(1, 4);
    record->scheduled = {{kFirst, 8, WorkKind::kPrefill, 0, 0}};
    auto abort = makeRecord(2, 4);
    abort->finished = {{kFirst, FinishReason::kAborted, 0}};
    history.apply(frameOf({record, abort}));
    QCOMPARE(history.steps().size(), std::size_t{1});
    QCOMPARE(history.lane(kFirst)->finish, FinishReason::kAborted);
  }

  void aLossAsksForASnapshotAndIgnoresWhatItHolds() {
    EngineHistory history;
    EngineFrame lossy = frameOf({makeRecord(9, 2)});
    lossy.lost = 3;
    history.apply(lossy);
    QVERIFY(history.needsSnapshot());
    EngineSnapshot snapshot;
    snapshot.step = 10;
    snapshot.block_size = 16;
    snapshot.blocks = {{1, true, kFirst}, {0, true, kNoRequest}};
    history.rejoin(snapshot);
    QVERIFY(!history.needsSnapshot());
    QCOMPARE(history.freeBlocks(), 1);
    QCOMPARE(history.cachedBlocks(), 1);
    auto stale = makeRecord(10, 2);
    stale->blocks = {{BlockEventKind::kFree, BlockId{0}, kFirst, {}}};
    history.apply(frameOf({stale}));
    QCOMPARE(history.blocks()[0].refCount, 1);
  }

  void whatIsKeptIsBounded() {
    EngineHistory history;
    for (std::uint64_t i = 1; i <= EngineHistory::kMaxSteps + 50; ++i) {
      auto record = makeRecord(i, 2);
      record->scheduled = {{RequestId{static_cast<std::int64_t>(i)}, 4, WorkKind::kPrefill, 0, 0}};
      history.apply(frameOf({record}));
    }
    QCOMPARE(history.steps().size(), EngineHistory::kMaxSteps);
    QCOMPARE(history.lanes().size(), EngineHistory::kMaxLanes);
  }

  void everyBlockFitsTheMapWhenThereIsAPixelForIt_data() {
    QTest::addColumn<int>("count");
    QTest::addColumn<int>("width");
    QTest::addColumn<int>("height");
    for (const int count : {1, 7, 64, 1000, 4096, 100000}) {
      QTest::addRow("%d blocks", count) << count << 400 << 300;
      QTest::addRow("%d blocks, narrow", count) << count << 160 << 700;
    }
  }
  void everyBlockFitsTheMapWhenThereIsAPixelForIt() {
    QFETCH(int, count);
    QFETCH(int, width);
    QFETCH(int, height);
    const BlockMap::Layout layout = BlockMap::fit(count, width, height);
    QVERIFY(layout.cell >= 1);
    QVERIFY(layout.columns * layout.cell <= width);
    QVERIFY(layout.rows * layout.cell <= height);
    QVERIFY(layout.columns * layout.rows >= count);
  }
};

QUIRE_TEST(TestEngineHistory)
#include "tst_engine_history.moc"
