#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "engine/step_ring.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

constexpr int kVocab = 1000;

// The next token is the last one plus one. `gate` makes steps wait, so that a test can act while
// one runs.
class CountingRunner : public Runner {
 public:
  double move_blocks(std::span<const BlockMove>) override { return 0; }
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override {
    {
      std::unique_lock lock(mutex_);
      ++launched_;
      changed_.notify_all();
      while (gated_ && !cancel) changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    result_ = {};
    result_.cancelled = cancel;
    if (fail_next_.exchange(false)) throw DeviceError("the fan fell off");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TokenId last = batch.input_ids[static_cast<std::size_t>(batch.logits_indices[i])];
      result_.rows.push_back({(last + 1) % kVocab, 0, {}});
    }
    return 1;
  }
  StepResult collect(Handle) override { return result_; }
  int vocab_size() const override { return kVocab; }

  void gate(bool closed) {
    const std::lock_guard lock(mutex_);
    gated_ = closed;
    changed_.notify_all();
  }
  void wait_for_launch(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return launched_ >= count; });
  }
  void fail_next() { fail_next_ = true; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool gated_ = false;
  int launched_ = 0;
  std::atomic<bool> fail_next_{false};
  StepResult result_;
};

class RecordingSink : public RequestSink {
 public:
  bool on_update(const GenerationUpdate& update) override {
    const std::lock_guard lock(mutex_);
    updates_.push_back(update);
    changed_.notify_all();
    return alive_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    alive_ = false;
  }
  std::vector<GenerationUpdate> wait_finished() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return !updates_.empty() && updates_.back().state == GenerationState::kFinished;
    });
    return updates_;
  }
  std::vector<GenerationUpdate> updates() {
    const std::lock_guard lock(mutex_);
    return updates_;
  }
  void wait_for(const std::function<bool(const GenerationUpdate&)>& wanted) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::any_of(updates_.begin(), updates_.end(), wanted); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<GenerationUpdate> updates_;
  bool alive_ = true;
};

EngineConfig small_config() {
  EngineConfig config;
  config.num_blocks = 32;
  config.block_size = 16;
  config.max_model_len = 512;
  config.max_num_batched_tokens = 64;
  config.max_num_seqs = 2;
  config.max_queue = 4;
  return config;
}

GenerationRequest make_request(int prompt, int max_tokens) {
  GenerationRequest request;
  for (int i = 0; i < prompt; ++i) request.prompt_token_ids.push_back(i % kVocab);
  request.params.max_tokens = max_tokens;
  request.params.temperature = 0;
  return request;
}

std::vector<TokenId> all_tokens(const std::vector<GenerationUpdate>& updates) {
  std::vector<TokenId> tokens;
  for (const auto& update : updates) {
    for (const auto& row : update.tokens) tokens.push_back(row.token);
  }
  return tokens;
}

struct Fixture {
  explicit Fixture(EngineConfig config = small_config(), bool paused = false) {
    auto owned = std::make_unique<CountingRunner>();
    runner = owned.get();
    engine = Engine::create({config, paused}, std::move(owned), nullptr);
  }
  ~Fixture() { runner->gate(false); }
  CountingRunner* runner = nullptr;
  std::unique_ptr<Engine> engine;
};

}  // namespace

class TestEngine : public QObject {
  Q_OBJECT
 private slots:
  void deliversEveryTokenAndOneFinish() {
    Fixture fixture;
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(10, 5), sink).ok());
    const auto updates = sink->wait_finished();
    QCOMPARE(all_tokens(updates), (std::vector<TokenId>{10, 11, 12, 13, 14}));
    QCOMPARE(updates.back().finish_reason, FinishReason::kLength);
    QCOMPARE(updates.front().state, GenerationState::kQueued);
    QCOMPARE(std::count_if(updates.begin(), updates.end(),
                           [](const auto& u) { return u.state == GenerationState::kFinished; }),
             1);
    QVERIFY(updates.back().first_token_s >= updates.back().first_scheduled_s);
    QCOMPARE(fixture.engine->num_unfinished(), 0);
  }

  void prefillProgressIsReportedPerChunk() {
    Fixture fixture;
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(150, 1), sink).ok());
    std::vector<int> computed;
    for (const auto& update : sink->wait_finished()) {
      if (update.state == GenerationState::kPrefill) computed.push_back(update.num_computed_tokens);
    }
    QCOMPARE(computed, (std::vector<int>{64, 128}));
  }

  void refusesAtSubmitWithBothNumbers() {
    Fixture fixture;
    const auto result = fixture.engine->submit(make_request(512, 4), nullptr);
    QVERIFY(!result.ok());
    QCOMPARE(result.error().code, ErrorCode::kContextLengthExceeded);
    QVERIFY(result.error().message.find("512") != std::string::npos);
  }

  void refusesTokensOutsideTheVocabulary() {
    Fixture fixture;
    auto request = make_request(3, 1);
    request.prompt_token_ids[1] = kVocab;
    QVERIFY(!fixture.engine->submit(std::move(request), nullptr).ok());
  }

  void aFullQueueRefuses() {
    Fixture fixture(small_config(), true);
    for (int i = 0; i < 4; ++i) QVERIFY(fixture.engine->submit(make_request(4, 1), nullptr).ok());
    const auto result = fixture.engine->submit(make_request(4, 1), nullptr);
    QVERIFY(!result.ok());
    QCOMPARE(result.error().code, ErrorCode::kQueueFull);
  }

  void queuedRequestsLearnTheirPlace() {
    Fixture fixture(small_config(), true);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 3; ++i) {
      sinks.push_back(std::make_shared<RecordingSink>());
      QVERIFY(fixture.engine->submit(make_request(4, 2), sinks.back()).ok());
    }
    sinks[2]->wait_for(
        [](const auto& u) { return u.state == GenerationState::kQueued && u.queue_position == 2; });
    fixture.engine->resume();
    for (const auto& sink : sinks)
      QCOMPARE(all_tokens(sink->wait_finished()), (std::vector<TokenId>{4, 5}));
  }

  void abortWhileQueuedFreesThePlace() {
    Fixture fixture(small_config(), true);
    auto sink = std::make_shared<RecordingSink>();
    const auto id = fixture.engine->submit(make_request(4, 2), sink);
    fixture.engine->abort(*id);
    QCOMPARE(sink->wait_finished().back().finish_reason, FinishReason::kAborted);
    QCOMPARE(fixture.engine->num_unfinished(), 0);
  }

  void abortStopsALongStepInFlight() {
    Fixture fixture;
    fixture.runner->gate(true);
    auto sink = std::make_shared<RecordingSink>();
    const auto id = fixture.engine->submit(make_request(64, 2), sink);
    fixture.runner->wait_for_launch(1);
    fixture.engine->abort(*id);  // the gate opens only through the cancelled step
    QCOMPARE(sink->wait_finished().back().finish_reason, FinishReason::kAborted);
    const EngineSnapshot snapshot = fixture.engine->snapshot();
    QVERIFY(std::all_of(snapshot.blocks.begin(), snapshot.blocks.end(),
                        [](const BlockView& block) { return block.ref_count == 0; }));
  }

  void aListenerThatIsGoneAbortsItsRequest() {
    Fixture fixture;
    auto sink = std::make_shared<RecordingSink>();
    sink->leave();
    QVERIFY(fixture.engine->submit(make_request(4, 100), sink).ok());
    QCOMPARE(sink->wait_finished().back().finish_reason, FinishReason::kAborted);
    QVERIFY(fixture.engine->drain(5));
  }

  void pausedEnginesStepOnRequest() {
    Fixture fixture(small_config(), true);
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(4, 3), sink).ok());
    fixture.engine->step(2);
    sink->wait_for([](const auto& u) { return u.num_output_tokens == 2; });
    QVERIFY(fixture.engine->paused());
    QCOMPARE(fixture.engine->snapshot().totals.steps, std::int64_t{2});
    fixture.engine->resume();
    QCOMPARE(all_tokens(sink->wait_finished()), (std::vector<TokenId>{4, 5, 6}));
  }

  void aStepHasWhatCameBeforeItWasAllowed_data() {
    QTest::addColumn<int>("steps");
    QTest::newRow("resume") << 0;
    QTest::newRow("step") << 1;
  }
  void aStepHasWhatCameBeforeItWasAllowed() {
    QFETCH(int, steps);
    Fixture fixture(small_config(), true);
    auto ring = fixture.engine->open_ring(64);
    auto first = std::make_shared<RecordingSink>(), second = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(4, 1), first).ok());
    // Both come while the engine's thread is busy with what was posted earlier.
    std::promise<void> busy, free;
    fixture.engine->request_snapshot([&](const EngineSnapshot&) {
      busy.set_value();
      free.get_future().wait();
    });
    busy.get_future().wait();
    QVERIFY(fixture.engine->submit(make_request(4, 1), second).ok());
    steps == 0 ? fixture.engine->resume() : fixture.engine->step(steps);
    free.set_value();
    first->wait_finished();
    std::vector<std::shared_ptr<const StepRecord>> records;
    ring->drain(records);
    QCOMPARE(records.front()->scheduled.size(), std::size_t{2});
  }

  void drainWaitsThenRefuses() {
    Fixture fixture;
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(4, 20), sink).ok());
    QVERIFY(fixture.engine->drain(10));
    QCOMPARE(sink->wait_finished().back().finish_reason, FinishReason::kLength);
    const auto refused = fixture.engine->submit(make_request(4, 1), nullptr);
    QVERIFY(!refused.ok());
    QCOMPARE(refused.error().code, ErrorCode::kNotReady);
  }

  void drainAbortsWhatIsLeftAfterItsTime() {
    Fixture fixture(small_config());
    fixture.runner->gate(true);
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(4, 20), sink).ok());
    fixture.runner->wait_for_launch(1);
    QVERIFY(!fixture.engine->drain(0.01));
    QCOMPARE(sink->wait_finished().back().finish_reason, FinishReason::kAborted);
  }

  void aDeviceFailureEndsLiveRequestsWithASentence() {
    Fixture fixture;
    fixture.runner->fail_next();
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(4, 2), sink).ok());
    const auto last = sink->wait_finished().back();
    QCOMPARE(last.finish_reason, FinishReason::kError);
    QVERIFY(last.error.find("the fan fell off") != std::string::npos);
    QVERIFY(!fixture.engine->failure().empty());
    QCOMPARE(fixture.engine->submit(make_request(4, 2), nullptr).error().code,
             ErrorCode::kDeviceFailure);
  }

  void destroyingTheEngineFinishesEverySink() {
    auto sink = std::make_shared<RecordingSink>();
    {
      Fixture fixture(small_config(), true);
      QVERIFY(fixture.engine->submit(make_request(4, 2), sink).ok());
    }
    QCOMPARE(sink->wait_finished().back().finish_reason, FinishReason::kAborted);
  }

  void ringsLoseTheOldestAndSaySo() {
    RingBuffer ring(3);
    for (std::uint64_t i = 1; i <= 5; ++i) {
      auto record = std::make_shared<StepRecord>();
      record->step = i;
      ring.on_step(record);
    }
    std::vector<std::shared_ptr<const StepRecord>> records;
    QCOMPARE(ring.drain(records), std::uint64_t{2});
    QCOMPARE(records.size(), std::size_t{3});
    QCOMPARE(records.front()->step, std::uint64_t{3});
    QCOMPARE(records.back()->step, std::uint64_t{5});
    records.clear();
    QCOMPARE(ring.drain(records), std::uint64_t{0});
    QVERIFY(records.empty());
  }

  void aRingSeesEveryStepOfTheEngine() {
    Fixture fixture(small_config(), true);
    auto ring = fixture.engine->open_ring(64);
    auto sink = std::make_shared<RecordingSink>();
    QVERIFY(fixture.engine->submit(make_request(4, 3), sink).ok());
    fixture.engine->resume();
    sink->wait_finished();
    fixture.engine->snapshot();
    std::vector<std::shared_ptr<const StepRecord>> records;
    QCOMPARE(ring->drain(records), std::uint64_t{0});
    QCOMPARE(records.size(), std::size_t{3});
  }

  void manyThreadsSubmitAndAbort() {
    EngineConfig config = small_config();
    config.max_queue = 1000;
    config.max_num_seqs = 8;
    Fixture fixture(config);
    std::vector<std::thread> threads;
    std::atomic<int> finished{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          auto sink = std::make_shared<RecordingSink>();
          const auto id = fixture.engine->submit(make_request(1 + (t * 25 + i) % 60, 8), sink);
          if (!id.ok()) continue;
          if (i % 3 == 0) fixture.engine->abort(*id);
          sink->wait_finished();
          ++finished;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    QCOMPARE(finished.load(), 100);
    QCOMPARE(fixture.engine->num_unfinished(), 0);
  }
};

QUIRE_TEST(TestEngine)
#include "tst_engine.moc"
