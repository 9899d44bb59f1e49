#include <QTemporaryDir>

#include "engine/trace/replay.h"
#include "tests/support/test_main.h"
#include "tests/trace/busy_run.h"

using namespace quire;
using namespace quire::test;

namespace {

ReplayOutcome replay_file(const std::string& path) {
  const auto reader = TraceReader::open(path);
  if (!reader.ok()) return {0, 0, reader.error().message};
  const auto outcome = replay(**reader);
  return outcome.ok() ? *outcome : ReplayOutcome{0, 0, outcome.error().message};
}

template <typename Record>
Record* nth(std::vector<TraceEvent>& events, int n) {
  for (TraceEvent& event : events)
    if (auto* record = std::get_if<Record>(&event); record != nullptr && n-- == 0) return record;
  return nullptr;
}

template <typename Wanted>
StepRecord* first_step(std::vector<TraceEvent>& events, Wanted wanted) {
  for (TraceEvent& event : events)
    if (auto* step = std::get_if<StepRecord>(&event); step != nullptr && wanted(*step)) return step;
  return nullptr;
}

}  // namespace

class TestReplay : public QObject {
  Q_OBJECT
 private slots:
  void init() { path_ = folder_.filePath("run.quiretrace").toStdString(); }

  void everyStepOfABusyRunIsRecomputed_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 60; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void everyStepOfABusyRunIsRecomputed() {
    QFETCH(int, seed);
    const BusyRun run = record_busy_run(path_, static_cast<unsigned>(seed), 120);
    const ReplayOutcome outcome = replay_file(path_);
    QCOMPARE(QString::fromStdString(outcome.difference), QString());
    std::uint64_t steps = 0;
    for (const TraceEvent& event : run.events) steps += std::holds_alternative<StepRecord>(event);
    QCOMPARE(outcome.steps_compared, steps);
    QVERIFY(steps >= 100);
  }

  void aChangedPromptIsNoticed() {
    BusyRun run = quiet_run();
    auto* arrival = nth<ArrivalRecord>(run.events, 2);
    arrival->prompt_token_ids.insert(arrival->prompt_token_ids.begin(), 9, 50);
    const auto runs_it = [&](const StepRecord& step) {
      return std::ranges::find(step.scheduled, arrival->request, &ScheduledWork::request) !=
             step.scheduled.end();
    };
    const ReplayOutcome outcome = replayed(run);
    QCOMPARE(outcome.differing_step, first_step(run.events, runs_it)->step);
    QVERIFY2(outcome.difference.find(": scheduled, entry") != std::string::npos,
             outcome.difference.c_str());
  }

  void aMissingArrivalIsNoticed() {
    BusyRun run = quiet_run();
    std::erase_if(run.events, [](const TraceEvent& event) {
      const auto* arrival = std::get_if<ArrivalRecord>(&event);
      return arrival != nullptr && index(arrival->request) == 2;
    });
    const ReplayOutcome outcome = replayed(run);
    QCOMPARE(outcome.differing_step, std::uint64_t{3});
    QVERIFY(outcome.difference.starts_with("Step 3 differs: "));
  }

  void anotherPolicyIsNoticed() {
    BusyRun run = quiet_run();
    run.header.config.policy = SchedulingPolicy::kPriority;
    const ReplayOutcome outcome = replayed(run);
    QVERIFY(outcome.differing_step > 0);
    QVERIFY2(outcome.difference.find("differs") != std::string::npos, outcome.difference.c_str());
  }

  void anotherBlockIsNoticed() {
    BusyRun run = quiet_run();
    StepRecord* step = first_step(run.events, [](const StepRecord& other) {
      return other.step > 4 && !other.blocks.empty();
    });
    step->blocks.front().block = BlockId{(index(step->blocks.front().block) + 1) % 40};
    const ReplayOutcome outcome = replayed(run);
    QCOMPARE(outcome.differing_step, step->step);
    QVERIFY2(outcome.difference.find("block events") != std::string::npos,
             outcome.difference.c_str());
  }

  void anotherPoolIsNoticed() {
    BusyRun run = quiet_run();
    run.header.config.num_blocks += 1;
    QVERIFY(replayed(run).differing_step > 0);
  }

  void aRecordingOfARunningEngineIsRefused() {
    Harness engine(small_config(20));
    QVERIFY(engine.add(1, 30, 5).ok());
    engine.step();
    const TraceHeader header{engine.core.config(), "test", "fake", 101, 0, 0};
    const auto recorder = TraceRecorder::create(path_, {header, {}, {}}, engine.core.snapshot());
    engine.core.add_sink(recorder->get());
    engine.run();
    (*recorder)->finish();
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    QCOMPARE((*reader)->first_step(), std::uint64_t{2});
    const auto outcome = replay(**reader);
    QVERIFY(!outcome.ok());
    QVERIFY(outcome.error().message.find("already running") != std::string::npos);
  }

 private:
  // Five requests, one after each step, in a pool of forty blocks; the later ones are more urgent.
  BusyRun quiet_run() {
    EngineConfig config = small_config(40, 4);
    config.max_num_seqs = 2;
    Harness engine(config);
    BusyRun run{{config, "test", "fake", 101, 0, 0}, {}};
    EventLog log;
    engine.core.add_sink(&log);
    for (int id = 0; id < 5; ++id) {
      engine.next_priority = 5 - id;
      (void)engine.add(id, 20 + id, 12, 3 + id);
      engine.step();
    }
    engine.run();
    run.events = std::move(log.events);
    return run;
  }
  ReplayOutcome replayed(const BusyRun& run) {
    write_recording(path_, run.header, run.events);
    return replay_file(path_);
  }

  QTemporaryDir folder_;
  std::string path_;
};

QUIRE_TEST(TestReplay)
#include "tst_replay.moc"
