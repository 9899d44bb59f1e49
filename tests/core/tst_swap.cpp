#include "tests/core/scheduler_bench.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

EngineConfig swap_config(int num_blocks, int num_swap_blocks) {
  EngineConfig config = config_of(num_blocks, 64);
  config.preemption_mode = PreemptionMode::kSwap;
  config.num_swap_blocks = num_swap_blocks;
  return config;
}

std::string moves_text(const std::vector<BlockMove>& moves) {
  static const char* const kNames[] = {"copy", "out", "in"};
  std::string text;
  for (const BlockMove& move : moves)
    text += (text.empty() ? "" : " | ") + std::string(kNames[static_cast<int>(move.kind)]) + " " +
            std::to_string(move.source) + ">" + std::to_string(move.target) + " x" +
            std::to_string(move.num_tokens);
  return text;
}

// Two requests that outgrow a pool of four blocks; the second is preempted in the third step.
struct Pressed {
  explicit Pressed(EngineConfig config) : bench(config) {
    first = &bench.add(1, 7);
    second = &bench.add(2, 7, 50);
    bench.step();
    bench.step();
  }
  Bench bench;
  Request* first;
  Request* second;
};

DecisionInputs rates(double swap_us_per_block, double recompute_us_per_token) {
  DecisionInputs inputs;
  inputs.swap_us_per_block = swap_us_per_block;
  inputs.recompute_us_per_token = recompute_us_per_token;
  return inputs;
}

}  // namespace

class TestSwap : public QObject {
  Q_OBJECT
 private slots:
  void aVictimsBlocksGoToTheHostAndBack();
  void blocksStillCachedAreNotBroughtBack();
  void aFullHostPoolRecomputes();
  void releasingASwappedRequestFreesItsHostBlocks();
  void aCancelledReturnKeepsTheHostCopy();
  void aSwappedRequestSaysWhatItLacks();
  void autoSwapsOnlyWhereItIsCheaper();
  void answersAreThoseWithoutSwapping();
};

void TestSwap::aVictimsBlocksGoToTheHostAndBack() {
  EngineConfig config = swap_config(4, 4);
  config.enable_prefix_caching = false;
  Pressed pressed(config);
  Bench& bench = pressed.bench;
  QCOMPARE(bench.step(), std::string("1:decode 1 | preempt 2 for 1"));
  QCOMPARE(moves_text(bench.last.moves), std::string("out 2>0 x4 | out 3>1 x4"));
  QCOMPARE(bench.last.preempted[0].blocks_swapped, 2);
  QCOMPARE(bench.last.preempted[0].tokens_lost, 0);
  QCOMPARE(pressed.second->status, RequestStatus::kSwapped);
  QCOMPARE(pressed.second->num_computed_tokens, 8);
  bench.finish(*pressed.first);
  QCOMPARE(bench.step(), std::string("2:decode 1 | admit 2"));
  QCOMPARE(bench.last.moves.size(), std::size_t{2});
  QCOMPARE(bench.last.moves[0].kind, MoveKind::kSwapIn);
  QCOMPARE(bench.last.tokens.recomputed, 0);
  QCOMPARE(bench.swap.num_free(), 4);
}

void TestSwap::blocksStillCachedAreNotBroughtBack() {
  Pressed pressed(swap_config(4, 4));
  Bench& bench = pressed.bench;
  // Of 2's blocks the second, freed first, is taken at once; the first stays cached.
  QCOMPARE(bench.step(), std::string("1:decode 1 | preempt 2 for 1"));
  bench.finish(*pressed.first);
  bench.step();
  QCOMPARE(bench.last.moves.size(), std::size_t{1});
  QCOMPARE(bench.last.moves[0].source, 1);
  QCOMPARE(pressed.second->num_cached_tokens, 0);
}

void TestSwap::aFullHostPoolRecomputes() {
  Pressed pressed(swap_config(4, 1));
  QCOMPARE(pressed.bench.step(), std::string("1:decode 1 | preempt 2 for 1"));
  QVERIFY(pressed.bench.last.moves.empty());
  QCOMPARE(pressed.second->status, RequestStatus::kPreempted);
  QCOMPARE(pressed.bench.last.preempted[0].tokens_lost, 8);
}

void TestSwap::releasingASwappedRequestFreesItsHostBlocks() {
  Pressed pressed(swap_config(4, 4));
  pressed.bench.step();
  QCOMPARE(pressed.bench.swap.num_free(), 2);
  pressed.bench.finish(*pressed.second);
  QCOMPARE(pressed.bench.swap.num_free(), 4);
}

void TestSwap::aCancelledReturnKeepsTheHostCopy() {
  Pressed pressed(swap_config(4, 4));
  Bench& bench = pressed.bench;
  bench.step();
  bench.finish(*pressed.first);
  for (int i = 0; i < 3; ++i) {
    QCOMPARE(bench.rolled_back_step(), std::string("2:decode 1 | admit 2"));
    QCOMPARE(pressed.second->status, RequestStatus::kSwapped);
    QCOMPARE(pressed.second->num_computed_tokens, 8);
    QCOMPARE(bench.swap.num_free(), 2);
  }
  QCOMPARE(bench.step(), std::string("2:decode 1 | admit 2"));
}

void TestSwap::aSwappedRequestSaysWhatItLacks() {
  Pressed pressed(swap_config(4, 4));
  pressed.bench.step();
  QCOMPARE(pressed.bench.wait(0), std::string("swapped 2"));
}

void TestSwap::autoSwapsOnlyWhereItIsCheaper() {
  QVERIFY(!swap_is_cheaper(rates(0, 5), 8, 2));  // not measured yet
  QVERIFY(!swap_is_cheaper(rates(5, 0), 8, 2));
  QVERIFY(swap_is_cheaper(rates(9, 5), 8, 2));    // 36 < 40
  QVERIFY(!swap_is_cheaper(rates(10, 5), 8, 2));  // 40 = 40
  for (const bool cheap : {true, false}) {
    EngineConfig config = swap_config(4, 4);
    config.preemption_mode = PreemptionMode::kAuto;
    Pressed pressed(config);
    pressed.bench.step(1, cheap ? rates(1, 5) : rates(50, 5));
    QCOMPARE(pressed.second->status, cheap ? RequestStatus::kSwapped : RequestStatus::kPreempted);
  }
}

void TestSwap::answersAreThoseWithoutSwapping() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    EngineConfig config = swap_config(12, 12);
    config.prefix_index = kind;
    Harness engine(config);
    for (int id = 1; id <= 6; ++id) QVERIFY(engine.add(id, 9 + id, 14, 5 * id).ok());
    QVERIFY(engine.run());
    QVERIFY(engine.answers_match());
    QVERIFY(engine.core.counters().swap_preemptions > 0);
    QCOMPARE(engine.core.counters().recomputed_tokens, 0);
    QVERIFY(engine.all_blocks_free());
  }
}

QUIRE_TEST(TestSwap)
#include "tst_swap.moc"
