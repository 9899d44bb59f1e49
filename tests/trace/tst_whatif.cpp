#include "engine/runner/whatif.h"

#include <QTemporaryDir>

#include "engine/runner/serving_workload.h"
#include "engine/trace/recorder.h"
#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

const MachineCosts kCosts{{{4.0, 0.9, 2.0, 0.8, 2e-4, 1e-4}, true}, 20};

SimulationOptions busy_server() {
  SimulationOptions options;
  options.config = small_config(64);
  options.config.max_model_len = 512;
  options.config.max_num_seqs = 8;
  options.config.max_num_batched_tokens = 128;
  options.config.max_queue = 10'000;
  options.costs = kCosts;
  return options;
}

WorkloadOptions visitors(int requests) {
  WorkloadOptions workload;
  workload.num_requests = requests;
  workload.rate = 6;
  workload.max_tokens_in_all = 256;
  workload.num_prefixes = 6;
  workload.prefix_median = 48;
  workload.own_median = 24;
  workload.output_median = 12;
  return workload;
}

// A simulated server as a machine to record: what its steps take is known exactly.
Result<SimulationResult> record_server(SimulationOptions options, const WorkloadOptions& workload,
                                       const std::string& path) {
  std::shared_ptr<TraceRecorder> recorder;
  options.on_begin = [&](EngineCore& core) -> Status {
    TraceRecorder::Options recording;
    recording.header.config = core.config();
    recording.header.vocab_size = options.vocab_size;
    QUIRE_TRY(recorder, TraceRecorder::create(path, std::move(recording), core.snapshot()));
    core.add_sink(recorder.get());
    return Ok{};
  };
  QUIRE_TRY(const RequestSource source, make_workload(workload));
  QUIRE_TRY(SimulationResult result, simulate(options, source));
  recorder->finish();
  return result;
}

bool close(double a, double b, double part) {
  return std::abs(a - b) <= part * std::max(std::abs(a), std::abs(b));
}

}  // namespace

class TestWhatIf : public QObject {
  Q_OBJECT
 private slots:
  void init() { path_ = folder_.filePath("day.quiretrace").toStdString(); }

  void costsOfTheRecordedMachineAreFound() {
    QVERIFY(record_server(busy_server(), visitors(300), path_).ok());
    const WhatIfResult result = ask({});
    QVERIFY2(result.error_p95 < 0.02, qPrintable(QString::number(result.error_p95)));
    QVERIFY(result.steps > 300);
    QCOMPARE(result.left_out, 0);
    QCOMPARE(result.refused, std::string());
  }

  void unchangedSettingsGiveBackWhatWasRecorded() {
    const auto real = record_server(busy_server(), visitors(300), path_);
    QVERIFY(real.ok());
    const WhatIfResult result = ask({});
    QVERIFY(close(result.recorded.ttft_p50, real->report.ttft_p50, 0.01));
    QVERIFY(close(result.unchanged.ttft_p50, real->report.ttft_p50, 0.05));
    QVERIFY(close(result.unchanged.itl_p50, real->report.itl_p50, 0.05));
    QVERIFY(close(result.unchanged.hit_rate, real->report.hit_rate, 0.05));
    QCOMPARE(result.unchanged.finished, real->report.finished);
  }

  void changedSettingsGiveWhatTheyReallyGive_data() {
    QTest::addColumn<QString>("setting");
    for (const char* setting :
         {"max_num_seqs=3", "num_blocks=40", "max_num_batched_tokens=48", "policy=lpm"})
      QTest::addRow("%s", setting) << setting;
  }
  void changedSettingsGiveWhatTheyReallyGive() {
    QFETCH(QString, setting);
    QVERIFY(record_server(busy_server(), visitors(300), path_).ok());
    const WhatIfResult asked = ask({setting.toStdString()});
    SimulationOptions changed = busy_server();
    QVERIFY(apply_settings(changed.config, {setting.toStdString()}).ok());
    const auto real =
        record_server(changed, visitors(300), folder_.filePath("other.quiretrace").toStdString());
    QVERIFY(real.ok());
    QVERIFY(close(asked.changed.ttft_p50, real->report.ttft_p50, 0.1));
    QVERIFY(close(asked.changed.itl_p50, real->report.itl_p50, 0.1));
    QVERIFY(close(asked.changed.hit_rate, real->report.hit_rate, 0.1));
  }

  void settingsChangedWhileRecordingChangeInThePrediction() {
    SimulationOptions server = busy_server();
    EngineConfig narrow = server.config;
    narrow.max_num_seqs = 2;
    server.changes = {{5, narrow}, {25, server.config}};
    const auto real = record_server(server, visitors(300), path_);
    const auto wide = record_server(busy_server(), visitors(300),
                                    folder_.filePath("wide.quiretrace").toStdString());
    QVERIFY(real.ok() && wide.ok());
    QVERIFY(!close(real->report.wait_max, wide->report.wait_max, 0.2));
    const WhatIfResult result = ask({});
    QCOMPARE(result.reconfigurations, 2);
    QVERIFY(close(result.unchanged.wait_max, real->report.wait_max, 0.05));
    QVERIFY(close(result.unchanged.ttft_p50, real->report.ttft_p50, 0.05));
  }

  void aSettingThatCannotBeIsRefused() {
    QVERIFY(record_server(busy_server(), visitors(50), path_).ok());
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    for (const char* setting : {"policy", "policy=best", "num_blocks=0", "colour=green"}) {
      const auto result = what_if(**reader, {setting});
      QVERIFY2(!result.ok(), setting);
      QVERIFY(result.error().code == ErrorCode::kInvalidArgument);
    }
  }

  void aPoolTooSmallForARequestIsTold() {
    QVERIFY(record_server(busy_server(), visitors(50), path_).ok());
    QVERIFY(!ask({"num_blocks=2"}).refused.empty());
  }

  void aRecordingWithoutDecodesIsRefused() {
    WorkloadOptions one_token = visitors(20);
    one_token.output_median = one_token.output_max = 1;
    QVERIFY(record_server(busy_server(), one_token, path_).ok());
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    const auto result = what_if(**reader, {});
    QVERIFY(!result.ok());
    QVERIFY(result.error().code == ErrorCode::kNotFound);
  }

 private:
  WhatIfResult ask(const std::vector<std::string>& settings) {
    const auto reader = TraceReader::open(path_);
    if (!reader.ok()) return {};
    auto result = what_if(**reader, settings);
    return result.ok() ? std::move(*result) : WhatIfResult{};
  }

  QTemporaryDir folder_;
  std::string path_;
};

QUIRE_TEST(TestWhatIf)
#include "tst_whatif.moc"
