#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

class TestEngineCore : public QObject {
  Q_OBJECT
 private slots:
  void everyAnswerIsTheOneGivenAlone_data();
  void everyAnswerIsTheOneGivenAlone();
};

void TestEngineCore::everyAnswerIsTheOneGivenAlone_data() {
  QTest::addColumn<int>("blocks");
  QTest::addColumn<int>("budget");
  QTest::addColumn<int>("chunk");
  QTest::addColumn<int>("seqs");
  QTest::addColumn<bool>("caching");
  QTest::addColumn<bool>("preempts");
  QTest::newRow("small chunks, tight budget") << 64 << 20 << 8 << 16 << true << false;
  QTest::newRow("12 blocks, recompute") << 12 << 64 << 0 << 16 << true << true;
  QTest::newRow("no caching, two sequences") << 64 << 64 << 0 << 2 << false << false;
  QTest::newRow("12 blocks, no caching") << 12 << 64 << 0 << 16 << false << true;
}

// Five requests of different lengths; the fourth shares two blocks with the first.
void TestEngineCore::everyAnswerIsTheOneGivenAlone() {
  QFETCH(int, blocks);
  QFETCH(int, budget);
  QFETCH(int, chunk);
  QFETCH(int, seqs);
  QFETCH(bool, caching);
  QFETCH(bool, preempts);
  EngineConfig config = small_config(blocks, 4);
  config.max_num_batched_tokens = budget;
  config.long_prefill_token_threshold = chunk;
  config.max_num_seqs = seqs;
  config.enable_prefix_caching = caching;
  Harness engine(config);
  SamplingParams params;
  params.max_tokens = 12;
  QVERIFY(engine.add(1, prompt_of(19, 5), params).ok());
  QVERIFY(engine.add(2, prompt_of(7, 11), params).ok());
  QVERIFY(engine.add(3, prompt_of(23, 17), params).ok());
  std::vector<TokenId> shared = prompt_of(8, 5);
  for (const TokenId token : prompt_of(6, 40)) shared.push_back(token);
  QVERIFY(engine.add(4, shared, params).ok());
  QVERIFY(engine.add(5, prompt_of(3, 29), params).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.ended.size(), std::size_t{5});
  QVERIFY(engine.answers_match());
  QVERIFY(engine.all_blocks_free());
  QCOMPARE(engine.core.counters().preemptions > 0, preempts);
  QCOMPARE(engine.core.counters().prefix_cache_hits > 0, caching);
}

QUIRE_TEST(TestEngineCore)
#include "tst_engine_core.moc"
