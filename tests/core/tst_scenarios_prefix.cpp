#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

// Prefix caching: what serving engines are known to get wrong.
namespace {

SamplingParams params_of(int max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return params;
}

EngineConfig config_for(PrefixIndexKind kind, int num_blocks = 64) {
  EngineConfig config = small_config(num_blocks, 4);
  config.prefix_index = kind;
  return config;
}

// Serves one request to its end and returns how many tokens the cache gave it.
int cached_of(Harness& engine, std::int64_t id, std::vector<TokenId> prompt, int max_tokens = 3,
              std::string key = {}) {
  const auto hits = engine.core.counters().prefix_cache_hits;
  if (!engine.add(id, std::move(prompt), params_of(max_tokens), std::move(key)).ok()) return -1;
  engine.run();
  return static_cast<int>(engine.core.counters().prefix_cache_hits - hits);
}

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

class TestScenariosPrefix : public QObject {
  Q_OBJECT
 private slots:
  void aReloadedAdapterNeverReadsWhatTheOldOneWrote();
  void tenantsWithDifferentSaltsShareNothing();
  void aHitEndsOnABlockBoundaryWhateverTheChunks();
  void aFullHitComputesTheLastBlockOrTheLastToken();
  void aPromptIsAnsweredAlikeByHitByBatchAndCold();
  void alternatingPromptsNeverPoisonEachOther();
  void aConversationComputesOnlyItsNewTurn();
  void aPreemptedRequestComesBackToItsOwnPrefix();
  void theTailIsEvictedBeforeThePrefix();
  void blocksInUseAreNeverEvicted();
  void queriesAreCountedOncePerAdmission();
  void aResetForgetsBlocksInUseWithoutDisturbingTheirRequests();
  void whatWasInTheHostDuringAResetIsNotFoundAgain();
  void rejectedDraftsAreNeverFound();
};

void TestScenariosPrefix::aReloadedAdapterNeverReadsWhatTheOldOneWrote() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind));
    QCOMPARE(cached_of(engine, 1, prompt_of(20), 3, "adapter legal, load 1"), 0);
    QVERIFY(cached_of(engine, 2, prompt_of(20), 3, "adapter legal, load 1") > 0);
    QCOMPARE(cached_of(engine, 3, prompt_of(20), 3, "adapter legal, load 2"), 0);
    QCOMPARE(cached_of(engine, 4, prompt_of(20)), 0);
  }
}

void TestScenariosPrefix::tenantsWithDifferentSaltsShareNothing() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind));
    const std::pair<const char*, const char*> tenants[] = {
        {"", ""}, {"", "ab"}, {"ab", ""}, {"a", "b"}, {"", "abc"}};
    std::int64_t id = 0;
    for (const auto& [key, salt] : tenants) {
      for (const bool again : {false, true}) {
        auto request = std::make_unique<Request>(id_of(++id), prompt_of(20), params_of(2));
        request->cache_key = key;
        request->cache_salt = salt;
        const auto hits = engine.core.counters().prefix_cache_hits;
        QVERIFY(engine.core.add_request(std::move(request)).ok());
        while (engine.core.has_unfinished()) engine.core.step();
        QCOMPARE(engine.core.counters().prefix_cache_hits > hits, again);
      }
    }
  }
}

void TestScenariosPrefix::aHitEndsOnABlockBoundaryWhateverTheChunks() {
  for (int budget = 1; budget <= 13; ++budget) {
    EngineConfig config = config_for(PrefixIndexKind::kHash);
    config.max_num_batched_tokens = budget;
    Harness engine(config);
    QCOMPARE(cached_of(engine, 1, prompt_of(22)), 0);
    QCOMPARE(cached_of(engine, 2, prompt_of(22)), 20);
    QCOMPARE(cached_of(engine, 3, joined(prompt_of(13), {1, 2, 3, 4, 5})), 12);
    QVERIFY(engine.answers_match());
  }
}

void TestScenariosPrefix::aFullHitComputesTheLastBlockOrTheLastToken() {
  Harness whole(config_for(PrefixIndexKind::kHash));
  Harness part(config_for(PrefixIndexKind::kRadix));
  for (Harness* engine : {&whole, &part}) QCOMPARE(cached_of(*engine, 1, prompt_of(24)), 0);
  QCOMPARE(cached_of(whole, 2, prompt_of(24)), 20);
  QCOMPARE(cached_of(part, 2, prompt_of(24)), 23);
  QVERIFY(whole.answers_match() && part.answers_match());
}

void TestScenariosPrefix::aPromptIsAnsweredAlikeByHitByBatchAndCold() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind));
    QVERIFY(engine.add(1, 21, 9).ok());
    QVERIFY(engine.run());
    for (int id = 2; id <= 5; ++id) QVERIFY(engine.add(id, 21, 9).ok());
    for (int id = 6; id <= 8; ++id) QVERIFY(engine.add(id, 17 + id, 9, 10 * id).ok());
    QVERIFY(engine.run());
    for (int id = 2; id <= 5; ++id) QCOMPARE(engine.answers[id], engine.answers[1]);
    QVERIFY(engine.answers_match());
  }
}

void TestScenariosPrefix::alternatingPromptsNeverPoisonEachOther() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    EngineConfig config = config_for(kind, 12);
    config.max_num_batched_tokens = 7;
    Harness engine(config);
    const auto a = joined(prompt_of(10), prompt_of(9, 40)),
               b = joined(prompt_of(10), prompt_of(9, 60));
    for (int id = 1; id <= 12; ++id) QVERIFY(cached_of(engine, id, id % 2 == 0 ? a : b, 6) >= 0);
    QVERIFY(engine.answers_match());
    QVERIFY(engine.core.counters().prefix_cache_hits > 0);
  }
}

void TestScenariosPrefix::aConversationComputesOnlyItsNewTurn() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind));
    std::vector<TokenId> said = prompt_of(11);
    for (int turn = 1; turn <= 6; ++turn) {
      const int known = static_cast<int>(said.size()) - (turn == 1 ? 11 : 5);
      const int cached = cached_of(engine, turn, said, 7);
      // All that was computed: everything but the last answer's newest token.
      if (turn > 1)
        QCOMPARE(cached, kind == PrefixIndexKind::kRadix ? known - 1 : (known - 1) / 4 * 4);
      said = joined(joined(said, engine.answers[turn]), prompt_of(5, 7 * turn));
    }
    QVERIFY(engine.answers_match());
  }
}

void TestScenariosPrefix::aPreemptedRequestComesBackToItsOwnPrefix() {
  Harness engine(config_for(PrefixIndexKind::kHash, 10));
  QVERIFY(engine.add(1, 16, 12).ok());
  QVERIFY(engine.add(2, 16, 12, 50).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  const EngineCounters& counters = engine.core.counters();
  QVERIFY(counters.preemptions > 0);
  QVERIFY(counters.prefix_cache_hits > 0);
}

void TestScenariosPrefix::theTailIsEvictedBeforeThePrefix() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind, 12));
    QCOMPARE(cached_of(engine, 1, prompt_of(32), 1), 0);
    QCOMPARE(cached_of(engine, 2, prompt_of(24, 60), 1), 0);  // takes two blocks of the eight
    QCOMPARE(cached_of(engine, 3, prompt_of(32), 1), 24);
    QVERIFY(engine.answers_match());
  }
}

void TestScenariosPrefix::blocksInUseAreNeverEvicted() {
  Harness engine(config_for(PrefixIndexKind::kHash, 12));
  QVERIFY(engine.add(1, 16, 14).ok());
  engine.step();
  for (int id = 2; id <= 6; ++id) QVERIFY(engine.add(id, 12, 2, 20 * id).ok());
  QVERIFY(engine.run());
  std::vector<int> references(12, 0);
  for (const auto& record : engine.sink.records) {
    for (const BlockEvent& event : record->blocks) {
      int& count = references[index(event.block)];
      if (event.kind == BlockEventKind::kEvict) QCOMPARE(count, 0);
      if (event.kind == BlockEventKind::kAlloc || event.kind == BlockEventKind::kAdopt) ++count;
      if (event.kind == BlockEventKind::kFree || event.kind == BlockEventKind::kRelease) --count;
    }
  }
  QVERIFY(engine.core.counters().evictions > 0);
  QVERIFY(engine.answers_match());
}

void TestScenariosPrefix::queriesAreCountedOncePerAdmission() {
  EngineConfig config = config_for(PrefixIndexKind::kHash, 8);
  Harness engine(config);
  QVERIFY(engine.add(1, 20, 6).ok());
  QVERIFY(engine.add(2, 16, 1, 50).ok());  // must wait for the first one's blocks
  engine.core.cancel_step();
  engine.step();
  for (int i = 0; i < 4; ++i) engine.step();
  QCOMPARE(engine.core.num_waiting(), 1);
  QCOMPARE(engine.core.counters().prefix_cache_queries, std::int64_t{20});
  QVERIFY(engine.run());
  QCOMPARE(engine.core.counters().prefix_cache_queries, std::int64_t{36});
}

void TestScenariosPrefix::aResetForgetsBlocksInUseWithoutDisturbingTheirRequests() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind));
    QVERIFY(engine.add(1, 20, 12).ok());
    for (int i = 0; i < 3; ++i) engine.step();
    engine.core.reset_prefix_cache();
    QCOMPARE(cached_of(engine, 2, prompt_of(20)), 0);
    QVERIFY(cached_of(engine, 3, prompt_of(20)) > 0);
    QVERIFY(engine.run());
    QVERIFY(engine.answers_match());
  }
}

void TestScenariosPrefix::whatWasInTheHostDuringAResetIsNotFoundAgain() {
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    EngineConfig config = config_for(kind, 10);
    config.preemption_mode = PreemptionMode::kSwap;
    config.num_swap_blocks = 10;
    Harness engine(config);
    QVERIFY(engine.add(1, 16, 12).ok());
    QVERIFY(engine.add(2, 16, 12, 50).ok());
    while (engine.core.counters().swap_preemptions == 0) engine.step();
    QCOMPARE(engine.core.find(id_of(2))->status, RequestStatus::kSwapped);
    engine.core.reset_prefix_cache();
    QVERIFY(engine.core.abort_request(id_of(1)));
    QVERIFY(engine.run());  // 2 came back and ended
    QCOMPARE(cached_of(engine, 3, prompt_of(16, 50)), 0);
    QVERIFY(engine.answers_match());
  }
}

void TestScenariosPrefix::rejectedDraftsAreNeverFound() {
  class Nonsense : public Drafter {
    std::vector<TokenId> propose(const Request&) override { return {90, 91, 92, 93, 94, 95}; }
  } drafter;
  for (const auto kind : {PrefixIndexKind::kHash, PrefixIndexKind::kRadix}) {
    Harness engine(config_for(kind));
    engine.core.set_drafter(&drafter);
    QVERIFY(engine.add(1, 8, 2).ok());
    engine.step();
    const std::vector<TokenId> first = engine.answers[1];
    QVERIFY(engine.run());
    engine.core.set_drafter(nullptr);
    const auto tempting = joined(joined(prompt_of(8), first), {90, 91, 92, 93, 94, 95, 1});
    QCOMPARE(cached_of(engine, 2, tempting), kind == PrefixIndexKind::kRadix ? 9 : 8);
    QVERIFY(engine.answers_match());
  }
}

QUIRE_TEST(TestScenariosPrefix)
#include "tst_scenarios_prefix.moc"
