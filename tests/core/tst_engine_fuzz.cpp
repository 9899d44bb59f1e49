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
  config.policy = static_cast<SchedulingPolicy>(dice(0, 2));
  config.victim = static_cast<VictimChoice>(dice(0, 1));
  config.preemption_mode = static_cast<PreemptionMode>(dice(0, 2));
  config.num_swap_blocks = dice.chance(60) ? dice(1, 40) : 0;
  config.prefix_index = static_cast<PrefixIndexKind>(dice(0, 1));
  config.prefill_chunk = {dice(0, 40), dice(0, 20)};
  config.max_num_partial_prefills = dice.chance(30) ? dice(1, 3) : 0;
  config.lpm_max_overtakes = dice(0, 6);
  config.max_displacements = dice(0, 3);
  return config;
}

// Prompts that share prefixes of many lengths.
std::vector<TokenId> random_prompt(Dice& dice, int context) {
  std::vector<TokenId> prompt = prompt_of(dice(1, std::min(60, context)), 3 * dice(0, 2));
  for (auto& token : prompt)
    if (dice.chance(2)) token = dice(0, 100);
  return prompt;
}

// Drafts the true continuation for a while, then nonsense.
class RandomDrafter : public Drafter {
 public:
  RandomDrafter(Dice& dice, Harness& engine) : dice_(dice), engine_(engine) {}
  std::vector<TokenId> propose(const Request& request) override {
    std::vector<TokenId> drafts;
    const auto truth = engine_.expected(index(request.id));
    const int right = dice_(0, 4), wrong = dice_(0, 3);
    for (int i = 0; i < right; ++i) {
      const auto at = static_cast<std::size_t>(request.num_output_tokens() + i);
      if (at < truth.size()) drafts.push_back(truth[at]);
    }
    for (int i = 0; i < wrong; ++i) drafts.push_back(dice_(-1, 101));
    return drafts;
  }

 private:
  Dice& dice_;
  Harness& engine_;
};

// Rates that change at every look.
class RandomRates : public DecisionSource {
 public:
  explicit RandomRates(Dice& dice) : dice_(dice) {}
  DecisionInputs next() override {
    DecisionInputs inputs;
    inputs.swap_us_per_block = dice_(0, 10);
    inputs.recompute_us_per_token = dice_(0, 10);
    return inputs;
  }
  void observe(const StepObservation&) override {}

 private:
  Dice& dice_;
};

}  // namespace

class TestEngineFuzz : public QObject {
  Q_OBJECT
 private slots:
  void randomServingKeepsEveryRule_data();
  void randomServingKeepsEveryRule();
};

void TestEngineFuzz::randomServingKeepsEveryRule_data() {
  QTest::addColumn<int>("seed");
  for (int seed = 1; seed <= 200; ++seed) QTest::addRow("seed %d", seed) << seed;
}

// Random arrivals, aborts, cancels, failures and resets on random pools. After every step all
// invariants hold; something always runs when something waits; every request ends; every answer is
// the one given alone.
void TestEngineFuzz::randomServingKeepsEveryRule() {
  QFETCH(int, seed);
  Dice dice(static_cast<unsigned>(seed));
  Harness engine(random_config(dice));
  RandomDrafter drafter(dice, engine);
  if (dice.chance(50)) engine.core.set_drafter(&drafter);
  RandomRates rates(dice);
  engine.core.set_decision_source(&rates);
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
    engine.next_priority = dice(0, 3);
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
    if (dice.chance(2)) {
      EngineConfig config = engine.core.config();
      config.policy = static_cast<SchedulingPolicy>(dice(0, 2));
      config.victim = static_cast<VictimChoice>(dice(0, 1));
      config.preemption_mode = static_cast<PreemptionMode>(dice(0, 2));
      config.max_num_seqs = dice(1, 8);
      config.max_num_batched_tokens = dice(1, 60);
      config.prefill_chunk = {dice(0, 40), dice(0, 20)};
      (void)engine.core.reconfigure(config);
    }
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
