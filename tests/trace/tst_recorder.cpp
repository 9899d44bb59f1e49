#include <sys/resource.h>
#include <sys/stat.h>

#include <QTemporaryDir>
#include <csignal>
#include <fstream>

#include "engine/engine.h"
#include "engine/trace/replay.h"
#include "tests/support/test_main.h"
#include "tests/trace/busy_run.h"

using namespace quire;
using namespace quire::test;

namespace {

TraceHeader header_of(const EngineConfig& config) {
  return {config, "quire test", "fake", 101, 0, 0};
}

EngineSnapshot nothing_yet(const EngineConfig& config) {
  EngineSnapshot snapshot;
  snapshot.block_size = config.block_size;
  snapshot.blocks.resize(static_cast<std::size_t>(config.num_blocks));
  return snapshot;
}

int mode_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<int>(status.st_mode & 0777) : -1;
}

class Ignore : public RequestSink {
 public:
  bool on_update(const GenerationUpdate&) override { return true; }
};

// Files cannot grow past a size while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

}  // namespace

class TestRecorder : public QObject {
  Q_OBJECT
 private slots:
  void init() { path_ = folder_.filePath("run.quiretrace").toStdString(); }
  void cleanup() { QFile::remove(QString::fromStdString(path_)); }

  void onlyTheOwnerMayReadARecording() {
    const EngineConfig config = small_config(8);
    QVERIFY(TraceRecorder::create(path_, {header_of(config), {}, {}}, nothing_yet(config)).ok());
    QCOMPARE(mode_of(path_), 0600);
    chmod(path_.c_str(), 0644);
    QVERIFY(TraceRecorder::create(path_, {header_of(config), {}, {}}, nothing_yet(config)).ok());
    QCOMPARE(mode_of(path_), 0600);
  }

  void otherFilesAreNotOverwritten() {
    std::ofstream(path_) << "my only copy";
    const EngineConfig config = small_config(8);
    const auto made =
        TraceRecorder::create(path_, {header_of(config), {}, {}}, nothing_yet(config));
    QVERIFY(!made.ok());
    QVERIFY(made.error().message.find("not a recording") != std::string::npos);
    QCOMPARE(read_file(path_), std::string("my only copy"));
    const auto folder = TraceRecorder::create(folder_.path().toStdString(),
                                              {header_of(config), {}, {}}, nothing_yet(config));
    QVERIFY(!folder.ok());
  }

  void afterAFailedWriteTheEngineGoesOn() {
    const FileSizeLimit limit(4096);
    Harness engine(small_config(40, 4));
    std::string heard;
    const auto recorder = TraceRecorder::create(
        path_, {header_of(engine.core.config()), {}, [&](const std::string& why) { heard = why; }},
        engine.core.snapshot());
    QVERIFY(recorder.ok());
    engine.core.add_sink(recorder->get());
    for (int id = 0; id < 400; ++id) {
      QVERIFY(engine.add(id, 20, 20).ok());
      QVERIFY(engine.run());
    }
    QVERIFY(engine.answers_match());
    (*recorder)->finish();
    QVERIFY2(heard.find("stopped: File too large.") != std::string::npos, heard.c_str());
    QCOMPARE((*recorder)->error(), heard);
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    QVERIFY(!(*reader)->damage().empty());
  }

  void aServingEngineIsRecordedFromItsStart() {
    const EngineConfig config = small_config(40, 4);
    Engine::Options options;
    options.config = config;
    auto engine = Engine::create(options, std::make_unique<FakeRunner>(40, 4), nullptr);
    const auto recorder = record_engine(*engine, path_, header_of(config), {});
    QVERIFY(recorder.ok());
    const auto sink = std::make_shared<Ignore>();
    for (int i = 0; i < 100; ++i) {
      GenerationRequest request;
      request.prompt_token_ids = prompt_of(10 + i % 9);
      request.params.max_tokens = 30;
      QVERIFY(engine->submit(std::move(request), sink).ok());
      if (i == 50) engine->reset_prefix_cache();
    }
    QVERIFY(engine->drain(60));
    engine->remove_sink(*recorder);
    (*recorder)->finish();
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    QCOMPARE(QString::fromStdString((*reader)->damage()), QString());
    const auto outcome = replay(**reader);
    QVERIFY(outcome.ok());
    QCOMPARE(QString::fromStdString(outcome->difference), QString());
    QCOMPARE(outcome->steps_compared, (*reader)->num_steps());
    QVERIFY(outcome->steps_compared > 30);
  }

 private:
  QTemporaryDir folder_;
  std::string path_;
};

QUIRE_TEST(TestRecorder)
#include "tst_recorder.moc"
