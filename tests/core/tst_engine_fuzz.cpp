#include <random>

#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : generator_(seed) {}
  int operator()(int least, int most) {
    return least + static_cast<int>(generator_() % static_cast<unsigned>(most - least + 1));
  }
  bool chance(int percent) { return (*this)(1, 100) <= percent; }

 private:
  std::mt19937 generator_;
};

EngineConfig random_config(Dice& dice) {
  EngineConfig config = small_config(dice(6, 40), dice.chance(50) ? 4 : dice(1, 7));
  config.max_num_seqs = dice(1, 8);
  config.max_num_batched_tokens = dice(1, 48);
  config.enable_prefix_caching = dice.chance(80);
  config.enable_chunked_prefill = dice.chance(80);
  config.long_prefill_token_threshold = dice.chance(40) ? dice(1, 12) : 0;
  config.max_model_len = dice(8, 120);
  config.max_queue = 12;
  return config;
}

// Prompts that share prefixes of many lengths.
std::vector<TokenId> random_prompt(Dice& dice, int context) {
  std::vector<TokenId> prompt = prompt_of(dice(1, std::min(60, context)), 3 * dice(0, 2));
  for (auto& token : prompt)
    if (dice.chance(2)) token = dice(0, 100);
  return prompt;
}

}  // namespace

class TestEngineFuzz : public QObject {
  Q_OBJECT
 private slots:
  void randomServingKeepsEveryRule_data();
  void randomServingKeepsEveryRule();
};

void TestEngineFuzz::randomServingKeepsEveryRule_data() {
  QTest::addColumn<int>("seed");
  for (int seed = 1; seed <= 40; ++seed) QTest::addRow("seed %d", seed) << seed;
}

// Random arrivals, aborts, cancels, failures and resets on random pools. After every step all
// invariants hold; something always runs when something waits; every request ends; every answer is
// the one given alone.
void TestEngineFuzz::randomServingKeepsEveryRule() {
  QFETCH(int, seed);
  Dice dice(static_cast<unsigned>(seed));
  Harness engine(random_config(dice));
  const bool failing = dice.chance(30);
  bool fail_next = false;
  engine.runner.fate = [&](const Batch&) {
    if (std::exchange(fail_next, false)) return FakeRunner::Fate::kFail;
    return dice.chance(5) ? FakeRunner::Fate::kCancel : FakeRunner::Fate::kRun;
  };
  std::int64_t next_id = 0;
  std::size_t accepted = 0;
  const auto arrive = [&] {
    SamplingParams params;
    params.max_tokens = dice.chance(5) ? -1 : dice(0, 20);
    if (params.max_tokens > 2) params.min_tokens = dice(0, 2);
    params.ignore_eos = dice.chance(30);
    const std::string key = dice.chance(20) ? "other" : "";
    accepted += engine
                    .add(next_id++, random_prompt(dice, engine.core.config().effective_context()),
                         params, key, {7, 13})
                    .ok();
  };
  for (int i = 0; i < 150; ++i) {
    while (dice.chance(25)) arrive();
    if (dice.chance(5)) engine.core.abort_request(id_of(dice(0, static_cast<int>(next_id))));
    if (dice.chance(3)) engine.core.cancel_step();
    if (dice.chance(1)) engine.core.reset_prefix_cache();
    fail_next = failing && dice.chance(2);
    const bool busy = engine.core.has_unfinished();
    const std::size_t records = engine.sink.records.size();
    try {
      engine.step();
    } catch (const DeviceError&) {
      QVERIFY(!engine.core.has_unfinished());
    }
    engine.core.check_integrity();
    if (busy) {  // progress: something was scheduled or finished
      QCOMPARE(engine.sink.records.size(), records + 1);
      QVERIFY(!engine.sink.last().scheduled.empty() || !engine.sink.last().finished.empty());
    }
    if (!busy || engine.core.has_unfinished()) continue;
    QVERIFY(engine.all_blocks_free());
  }
  QVERIFY(engine.run(5000));
  QVERIFY(engine.answers_match());
  QVERIFY(engine.all_blocks_free());
  std::size_t finished = 0;
  for (const auto& record : engine.sink.records) finished += record->finished.size();
  QCOMPARE(finished, accepted);
}

QUIRE_TEST(TestEngineFuzz)
#include "tst_engine_fuzz.moc"
