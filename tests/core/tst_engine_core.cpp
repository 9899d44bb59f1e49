#include <limits>

#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

// Spells every token as "<id>" and stops at one given token, as at a stop string.
class SpellingProcessor : public OutputProcessor {
 public:
  void begin(const Request& request) override { held_[request.id] = ""; }
  Outcome on_token(RequestId request, TokenId token, bool stops_allowed) override {
    // Holds the newest token back until the next one comes.
    Outcome outcome{held_.at(request), {}};
    held_.at(request).clear();
    if (stops_allowed && token == stop_at) {
      outcome.stop_string = "stop " + std::to_string(token);
      return outcome;
    }
    held_.at(request) = "<" + std::to_string(token) + ">";
    return outcome;
  }
  std::string finish(RequestId request, FinishReason) override {
    std::string text = held_.at(request);
    held_.erase(request);
    return text;
  }
  bool empty() const { return held_.empty(); }

  TokenId stop_at = -1;

 private:
  std::map<RequestId, std::string> held_;
};

SamplingParams params_of(int max_tokens) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return params;
}

std::string spelled(const std::vector<TokenId>& tokens, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "<" + std::to_string(tokens[i]) + ">";
  return text;
}

// A pool and budget so small that steps prefill, decode, recompute, adopt and preempt.
EngineConfig tight_config() {
  EngineConfig config = small_config(12, 4);
  config.max_num_batched_tokens = 16;
  config.max_num_seqs = 4;
  return config;
}

void add_five(Harness& engine) {
  for (int id = 1; id <= 5; ++id)
    QVERIFY(engine.add(id, prompt_of(4 * id + 5, id <= 3 ? 3 : 10 * id), params_of(9)).ok());
}

}  // namespace

class TestEngineCore : public QObject {
  Q_OBJECT
 private slots:
  void theFinishHookSeesTheBlocksBeforeTheyGo();
  void everyAnswerIsTheOneGivenAlone_data();
  void everyAnswerIsTheOneGivenAlone();
  void aCancelledStepChangesNothing();
  void aFailedStepEndsEveryRequestAndEmptiesThePool();
  void abortFreesAtOnceInEveryState();
  void stopsByTokenStringAndLength();
  void minTokensHoldsStopsBack();
  void ignoresEosWhenAsked();
  void maxTokensZeroFinishesWithoutSampling();
  void refusesWhatCanNeverRun();
  void refusesDuplicatesAndAFullQueue();
  void withoutChunkedPrefillAPreemptedRequestCanReturn();
  void clampsMaxTokensToTheContext();
  void seedsRequestsThatBringNone();
  void recordsTellEverything();
  void reconfiguresOnlyLiveSettings();
  void resetForgetsThePrefix();
  void checksItsConfiguration();
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
  QVERIFY(engine.add(1, prompt_of(19, 5), params_of(12)).ok());
  QVERIFY(engine.add(2, prompt_of(7, 11), params_of(12)).ok());
  QVERIFY(engine.add(3, prompt_of(23, 17), params_of(12)).ok());
  std::vector<TokenId> shared = prompt_of(8, 5);
  for (const TokenId token : prompt_of(6, 40)) shared.push_back(token);
  QVERIFY(engine.add(4, shared, params_of(12)).ok());
  QVERIFY(engine.add(5, prompt_of(3, 29), params_of(12)).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.ended.size(), std::size_t{5});
  QVERIFY(engine.answers_match());
  QVERIFY(engine.all_blocks_free());
  QCOMPARE(engine.core.counters().preemptions > 0, preempts);
  QCOMPARE(engine.core.counters().prefix_cache_hits > 0, caching);
}

// Whichever step is cancelled, and the fake forward then leaves poison in every slot it was given.
void TestEngineCore::aCancelledStepChangesNothing() {
  for (int cancelled = 0; cancelled < 60; ++cancelled) {
    Harness engine(tight_config());
    add_five(engine);
    int steps = 0;
    while (engine.core.has_unfinished() && steps < 500) {
      if (steps++ != cancelled) {
        engine.step();
        continue;
      }
      std::map<std::int64_t, int> computed;
      for (int id = 1; id <= 5; ++id)
        if (const Request* request = engine.core.find(id_of(id)); request && !request->finished())
          computed[id] = request->num_computed_tokens;
      const EngineCounters before = engine.core.counters();
      engine.core.cancel_step();
      QVERIFY(engine.step().empty());
      const StepRecord& record = engine.sink.last();
      QCOMPARE(record.outcome, StepOutcome::kCancelled);
      QVERIFY(record.admitted.empty() && record.sampled.empty() && !record.scheduled.empty());
      for (const Preemption& preemption : record.preempted) computed[index(preemption.victim)] = 0;
      for (const auto& [id, count] : computed)
        QCOMPARE(engine.core.find(id_of(id))->num_computed_tokens, count);
      QCOMPARE(engine.core.counters().prefix_cache_queries, before.prefix_cache_queries);
      QCOMPARE(engine.core.counters().steps, before.steps);
    }
    QVERIFY(!engine.core.has_unfinished());
    QVERIFY(engine.answers_match());
    QVERIFY(engine.all_blocks_free());
  }
}

void TestEngineCore::aFailedStepEndsEveryRequestAndEmptiesThePool() {
  for (int failing = 0; failing < 40; ++failing) {
    SpellingProcessor processor;
    Harness engine(tight_config(), &processor);
    add_five(engine);
    engine.runner.fate = [&](const Batch&) {
      return engine.runner.launches == failing + 1 ? FakeRunner::Fate::kFail
                                                   : FakeRunner::Fate::kRun;
    };
    bool thrown = false;
    for (int i = 0; i < 500 && engine.core.has_unfinished() && !thrown; ++i) {
      try {
        engine.step();
      } catch (const DeviceError&) {
        thrown = true;
      }
    }
    QVERIFY(!engine.core.has_unfinished());
    QVERIFY(engine.all_blocks_free());
    QVERIFY(processor.empty());
    engine.core.check_integrity();
    if (!thrown) break;
    QCOMPARE(engine.sink.last().outcome, StepOutcome::kFailed);
    QVERIFY(!engine.sink.last().finished.empty());
    for (const FinishRecord& finish : engine.sink.last().finished) {
      QCOMPARE(finish.reason, FinishReason::kError);
      QCOMPARE(engine.core.find(finish.request)->finish_reason, FinishReason::kError);
    }
    QCOMPARE(engine.sink.last().num_cached_blocks, 0);
    QVERIFY(engine.add(10, 9, 4).ok());  // the engine goes on, and nothing stale is adopted
    QVERIFY(engine.run());
    QVERIFY(engine.answers_match());
  }
}

void TestEngineCore::abortFreesAtOnceInEveryState() {
  SpellingProcessor processor;
  Harness engine(tight_config(), &processor);
  QVERIFY(engine.add(1, 30, 10).ok());
  QVERIFY(engine.add(2, 8, 10, 50).ok());
  QVERIFY(engine.core.abort_request(id_of(2)));  // never scheduled
  engine.step();
  QCOMPARE(engine.core.find(id_of(1))->num_computed_tokens, 16);
  QVERIFY(engine.core.abort_request(id_of(1)));  // mid-prompt
  QVERIFY(!engine.core.has_unfinished());
  QVERIFY(engine.all_blocks_free());
  QCOMPARE(engine.core.find(id_of(1))->finish_reason, FinishReason::kAborted);
  QCOMPARE(engine.sink.last().finished.size(), std::size_t{1});
  QCOMPARE(engine.sink.last().num_free_blocks, 12);
  QVERIFY(!engine.core.abort_request(id_of(1)));   // already finished
  QVERIFY(!engine.core.abort_request(id_of(77)));  // unknown
  engine.step();
  QVERIFY(engine.core.find(id_of(1)) == nullptr);  // forgotten once the next step began
  add_five(engine);
  for (int i = 0; i < 200 && engine.core.counters().preemptions == 0; ++i) engine.step();
  QVERIFY(engine.core.counters().preemptions > 0);
  for (int id = 5; id >= 1; --id) engine.core.abort_request(id_of(id));  // running and preempted
  QVERIFY(!engine.core.has_unfinished());
  QVERIFY(engine.all_blocks_free());
  QVERIFY(processor.empty());
  engine.core.check_integrity();
}

void TestEngineCore::stopsByTokenStringAndLength() {
  Harness plain(small_config(64, 4));
  QVERIFY(plain.add(1, 9, 20).ok());
  QVERIFY(plain.run());
  const std::vector<TokenId> answer = plain.answers[1];
  QCOMPARE(answer.size(), std::size_t{20});
  QCOMPARE(plain.ended[1].reason, FinishReason::kLength);
  std::size_t at = 6;  // a token that did not occur before
  while (std::find(answer.begin(), answer.begin() + at, answer[at]) != answer.begin() + at) ++at;

  SpellingProcessor processor;
  Harness engine(small_config(64, 4), &processor);
  SamplingParams by_id = params_of(20);
  by_id.stop_token_ids = {answer[at]};
  QVERIFY(engine.add(1, prompt_of(9), by_id).ok());
  QVERIFY(engine.add(2, prompt_of(9), params_of(20), {}, {answer[at]}).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.ended[1].reason, FinishReason::kStop);
  QCOMPARE(engine.ended[1].stop_reason, std::to_string(answer[at]));
  QCOMPARE(engine.ended[2].reason, FinishReason::kStop);
  QCOMPARE(engine.ended[2].stop_reason, std::string());
  QCOMPARE(engine.answers[2].size(), at + 1);
  QCOMPARE(engine.texts[2], spelled(answer, at));  // the EOS itself has no text

  processor.stop_at = answer[at];
  QVERIFY(engine.add(3, 9, 20).ok());
  QVERIFY(engine.add(4, 9, static_cast<int>(at)).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.ended[3].reason, FinishReason::kStop);
  QCOMPARE(engine.ended[3].stop_reason, "stop " + std::to_string(answer[at]));
  QCOMPARE(engine.texts[3], spelled(answer, at));
  QCOMPARE(engine.answers[3].size(), at + 1);  // found in the step that sampled it
  QCOMPARE(engine.ended[4].reason, FinishReason::kLength);
  QCOMPARE(engine.texts[4], spelled(answer, at));
  QVERIFY(processor.empty());
}

void TestEngineCore::minTokensHoldsStopsBack() {
  std::vector<TokenId> half;  // half of the vocabulary ends the request
  for (TokenId id = 0; id < 101; id += 2) half.push_back(id);
  SpellingProcessor processor;
  for (const int least : {0, 1, 5, 17}) {
    Harness engine(small_config(64, 4), &processor);
    SamplingParams params = params_of(40);
    params.min_tokens = least;
    QVERIFY(engine.add(1, prompt_of(9), params, {}, half).ok());
    QVERIFY(engine.run());
    QVERIFY(engine.answers_match());
    QVERIFY(static_cast<int>(engine.answers[1].size()) >= least);
    QCOMPARE(engine.ended[1].reason, FinishReason::kStop);
    for (int i = 0; i + 1 < least; ++i) QVERIFY(engine.answers[1][i] % 2 == 1);
  }
}

void TestEngineCore::ignoresEosWhenAsked() {
  std::vector<TokenId> all;
  for (TokenId id = 0; id < 101; ++id) all.push_back(id);
  Harness engine(small_config(64, 4));
  SamplingParams params = params_of(8);
  params.ignore_eos = true;
  QVERIFY(engine.add(1, prompt_of(9), params, {}, all).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.answers[1].size(), std::size_t{8});
  QCOMPARE(engine.ended[1].reason, FinishReason::kLength);
}

void TestEngineCore::maxTokensZeroFinishesWithoutSampling() {
  SpellingProcessor processor;
  Harness engine(small_config(64, 4), &processor);
  QVERIFY(engine.add(1, 9, 0).ok());
  QVERIFY(engine.core.has_unfinished());
  const auto outputs = engine.step();
  QCOMPARE(outputs.size(), std::size_t{1});
  QCOMPARE(outputs[0].finish_reason, FinishReason::kLength);
  QCOMPARE(outputs[0].num_output_tokens, 0);
  QVERIFY(!engine.core.has_unfinished() && processor.empty());
  QCOMPARE(engine.runner.launches, 0);
  QCOMPARE(engine.sink.last().finished.size(), std::size_t{1});
}

void TestEngineCore::refusesWhatCanNeverRun() {
  EngineConfig config = small_config(8, 4);  // 32 tokens
  config.max_model_len = 1000;
  Harness engine(config);
  const Status long_prompt = engine.add(1, 32, 4);
  QVERIFY(!long_prompt.ok());
  QCOMPARE(long_prompt.error().code, ErrorCode::kContextLengthExceeded);
  QVERIFY(QString::fromStdString(long_prompt.error().message).contains("32 tokens, which"));
  QVERIFY(QString::fromStdString(long_prompt.error().message).contains("context of 32 tokens"));
  QVERIFY(engine.add(2, 31, 4).ok());
  QCOMPARE(engine.core.find(id_of(2))->params.max_tokens, 1);
  QCOMPARE(engine.add(3, 0, 4).error().code, ErrorCode::kInvalidArgument);
  QCOMPARE(engine.add(4, {1, 2, 101}, {}).error().code, ErrorCode::kInvalidArgument);
  QCOMPARE(engine.add(4, {1, -1, 2}, {}).error().code, ErrorCode::kInvalidArgument);
  SamplingParams bad;
  bad.temperature = std::numeric_limits<float>::quiet_NaN();
  QCOMPARE(engine.add(5, {1, 2}, bad).error().code, ErrorCode::kInvalidArgument);
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestEngineCore::refusesDuplicatesAndAFullQueue() {
  EngineConfig config = small_config(8, 4);
  config.max_queue = 2;
  Harness engine(config);
  QVERIFY(engine.add(1, 5, 4).ok());
  QVERIFY(!engine.add(1, 6, 4).ok());
  QVERIFY(engine.add(2, 5, 4).ok());
  QCOMPARE(engine.add(3, 5, 4).error().code, ErrorCode::kQueueFull);
  QCOMPARE(engine.core.num_waiting(), 2);
  engine.step();
  QVERIFY(!engine.add(1, 6, 4).ok());  // running
  QVERIFY(engine.add(3, 5, 4).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QCOMPARE(engine.sink.arrivals.size(), std::size_t{3});
}

void TestEngineCore::withoutChunkedPrefillAPreemptedRequestCanReturn() {
  EngineConfig config = tight_config();
  config.enable_chunked_prefill = false;
  Harness engine(config);
  QCOMPARE(engine.add(9, 17, 1).error().code, ErrorCode::kContextLengthExceeded);
  for (int id = 1; id <= 5; ++id) {
    QVERIFY(engine.add(id, 6 + id, 50, 11 * id).ok());
    QCOMPARE(engine.core.find(id_of(id))->params.max_tokens, 17 - 6 - id);
  }
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QVERIFY(engine.core.counters().preemptions > 0);
}

void TestEngineCore::clampsMaxTokensToTheContext() {
  EngineConfig config = small_config(64, 4);
  config.max_model_len = 20;
  Harness engine(config);
  QVERIFY(engine.add(1, 9, -1).ok());
  QVERIFY(engine.add(2, 9, 5000).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.answers[1].size(), std::size_t{11});
  QCOMPARE(engine.answers[2].size(), std::size_t{11});
  QCOMPARE(engine.ended[1].reason, FinishReason::kLength);
}

void TestEngineCore::seedsRequestsThatBringNone() {
  EngineConfig config = small_config(64, 4);
  config.seed = 7;
  Harness a(config), b(config);
  SamplingParams own = params_of(2);
  own.seed = 42;
  for (Harness* engine : {&a, &b}) {
    QVERIFY(engine->add(1, 5, 2).ok());
    QVERIFY(engine->add(2, 5, 2).ok());
    QVERIFY(engine->add(3, prompt_of(5), own).ok());
  }
  QVERIFY(a.sink.arrivals[0].params.seed.has_value());
  QVERIFY(a.sink.arrivals[0].params.seed != a.sink.arrivals[1].params.seed);
  QVERIFY(a.sink.arrivals[0].params.seed == b.sink.arrivals[0].params.seed);
  QVERIFY(*a.sink.arrivals[2].params.seed == 42);
}

void TestEngineCore::recordsTellEverything() {
  Harness engine(tight_config());
  add_five(engine);
  QVERIFY(engine.run());
  std::map<RequestId, int> finished, sampled;
  std::vector<int> references(12, 0);
  std::uint64_t step = 0;
  for (const auto& record : engine.sink.records) {
    QCOMPARE(record->step, ++step);
    QVERIFY(record->times.start_s > 0 && record->times.schedule_us > 0);
    QVERIFY(record->times.update_us > 0);
    QCOMPARE(record->token_budget, 16);
    int tokens = 0;
    for (const ScheduledWork& work : record->scheduled) tokens += work.num_tokens;
    QVERIFY(tokens > 0 && tokens <= 16);
    for (const SampledToken& token : record->sampled) ++sampled[token.request];
    for (const FinishRecord& finish : record->finished) ++finished[finish.request];
    for (const BlockEvent& event : record->blocks) {
      int& count = references[index(event.block)];
      if (event.kind == BlockEventKind::kAlloc) count = 1;
      if (event.kind == BlockEventKind::kAdopt) ++count;
      if (event.kind == BlockEventKind::kRelease || event.kind == BlockEventKind::kFree) --count;
    }
    // Replaying the events gives the pool the record reports.
    QCOMPARE(static_cast<int>(std::ranges::count(references, 0)), record->num_free_blocks);
  }
  QCOMPARE(finished.size(), std::size_t{5});
  for (const auto& [id, count] : sampled) QCOMPARE(count, 9);
  const EngineCounters totals = engine.sink.last().totals;
  QCOMPARE(totals.generation_tokens, std::int64_t{45});
  QCOMPARE(totals.prompt_tokens, std::int64_t{9 + 13 + 17 + 21 + 25});
  QCOMPARE(totals.requests_finished, std::int64_t{5});
  QVERIFY(totals.prefix_cache_hits > 0 && totals.prefix_cache_hits < totals.prefix_cache_queries);
  QVERIFY(totals == engine.core.counters());
}

void TestEngineCore::reconfiguresOnlyLiveSettings() {
  Harness engine(tight_config());
  EngineConfig next = engine.core.config();
  next.max_num_seqs = 1;
  next.max_num_batched_tokens = 5;
  QVERIFY(engine.core.reconfigure(next).ok());
  QCOMPARE(engine.sink.changes.size(), std::size_t{1});
  add_five(engine);
  engine.step();
  QCOMPARE(engine.core.num_running(), 1);
  QCOMPARE(engine.sink.last().scheduled[0].num_tokens, 5);
  next.num_blocks = 13;
  QVERIFY(!engine.core.reconfigure(next).ok());
  next = engine.core.config();
  next.max_num_seqs = 0;
  QVERIFY(!engine.core.reconfigure(next).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestEngineCore::resetForgetsThePrefix() {
  Harness engine(small_config(64, 4));
  QVERIFY(engine.add(1, 20, 3).ok());
  QVERIFY(engine.run());
  engine.core.reset_prefix_cache();
  QCOMPARE(engine.sink.last().num_cached_blocks, 0);
  QVERIFY(engine.add(2, 20, 3).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.core.counters().prefix_cache_hits, std::int64_t{0});
  QVERIFY(engine.add(3, 20, 3).ok());
  QVERIFY(engine.run());
  QCOMPARE(engine.core.counters().prefix_cache_hits, std::int64_t{16});
  QVERIFY(engine.answers_match());
}

void TestEngineCore::checksItsConfiguration() {
  QVERIFY(validate(small_config(8)).ok());
  QVERIFY(!validate(EngineConfig{}).ok());
  EngineConfig config = small_config(8);
  config.long_prefill_token_threshold = -1;
  QVERIFY(QString::fromStdString(validate(config).error().message)
              .startsWith("long_prefill_token_threshold must be"));
}

void TestEngineCore::theFinishHookSeesTheBlocksBeforeTheyGo() {
  Harness engine(small_config(16, 4));
  std::map<std::int64_t, std::pair<FinishReason, std::size_t>> seen;
  engine.core.set_on_finish([&](const Request& request, std::span<const BlockId> table) {
    seen[index(request.id)] = {request.finish_reason, table.size()};
  });
  QVERIFY(engine.add(1, 9, 2).ok() && engine.add(2, 5, 9, 50).ok());
  engine.step();
  engine.core.abort_request(id_of(2));
  QCOMPARE(seen[2].second, std::size_t{2});
  QVERIFY(engine.run());
  QCOMPARE(seen[1].second, std::size_t{3});
  QCOMPARE(seen[1].first, FinishReason::kLength);
  QCOMPARE(seen[2].first, FinishReason::kAborted);
  QCOMPARE(seen.size(), std::size_t{2});
}

QUIRE_TEST(TestEngineCore)
#include "tst_engine_core.moc"
