#include <QTemporaryDir>
#include <fstream>
#include <sstream>

#include "engine/memory.h"
#include "engine/paths.h"
#include "engine/settings.h"
#include "tests/support/test_main.h"

using namespace quire;

class TestSettings : public QObject {
  Q_OBJECT

  std::unique_ptr<QTemporaryDir> folder_;

  void write(const std::string& text) {
    QVERIFY(ensure_dir(config_dir()));
    std::ofstream(Settings::path()) << text;
  }

 private slots:
  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    qputenv("XDG_CONFIG_HOME", folder_->path().toUtf8());
  }

  void aMissingFileGivesDefaults() {
    std::string warning;
    const Settings settings = Settings::load_file(warning);
    QVERIFY(warning.empty());
    QCOMPARE(settings.model, std::string("starter"));
    QCOMPARE(settings.server.port, 8080);
    QCOMPARE(settings.server.host, std::string("127.0.0.1"));
  }

  void whatIsSavedComesBack() {
    std::string warning;
    Settings settings = Settings::load_file(warning);
    settings.model = "other";
    settings.model_folders = {"/a", "/b c"};
    settings.load.num_blocks = 77;
    settings.load.cpu_pin = "cores";
    settings.load.cpu_priority = "low";
    settings.server.api_key = "secret";
    QVERIFY(settings.save().ok());
    const Settings again = Settings::load_file(warning);
    QVERIFY(warning.empty());
    QCOMPARE(again.model, settings.model);
    QCOMPARE(again.model_folders, settings.model_folders);
    QCOMPARE(again.load.num_blocks, 77);
    QCOMPARE(again.load.cpu_pin, std::string("cores"));
    QCOMPARE(again.load.cpu_priority, std::string("low"));
    QCOMPARE(again.server.api_key, std::string("secret"));
    const auto permissions = QFile::permissions(QString::fromStdString(Settings::path()));
    QVERIFY(!(permissions & (QFile::ReadGroup | QFile::ReadOther)));
  }

  void schedulingIsKeptInWords() {
    std::string warning;
    Settings settings = Settings::load_file(warning);
    settings.load.policy = SchedulingPolicy::kLpm;
    settings.load.preemption_mode = PreemptionMode::kSwap;
    settings.load.prefix_index = PrefixIndexKind::kRadix;
    settings.load.prefill_chunk = PrefillChunkPolicy{1000, 0};
    settings.load.max_itl_ms = 37.5;
    settings.load.num_swap_blocks = 12;
    QVERIFY(settings.save().ok());
    Settings again = Settings::load_file(warning);
    QVERIFY(warning.empty());
    QCOMPARE(again.load.policy, SchedulingPolicy::kLpm);
    QCOMPARE(again.load.preemption_mode, PreemptionMode::kSwap);
    QCOMPARE(again.load.prefix_index, PrefixIndexKind::kRadix);
    QCOMPARE(again.load.victim, VictimChoice::kLast);
    QVERIFY(again.load.prefill_chunk == (PrefillChunkPolicy{1000, 0}));
    QCOMPARE(again.load.max_itl_ms, 37.5);
    QCOMPARE(again.load.num_swap_blocks, 12);
    again.load.prefill_chunk.reset();
    QVERIFY(again.save().ok());
    QVERIFY(!Settings::load_file(warning).load.prefill_chunk);
  }

  void anUnknownWordFallsBackAndIsNamed() {
    write(R"({"load":{"policy":"random","victim":"cheapest","max_itl_ms":-1}})");
    std::string warning;
    const Settings settings = Settings::load_file(warning);
    QCOMPARE(settings.load.policy, SchedulingPolicy::kFcfs);
    QCOMPARE(settings.load.victim, VictimChoice::kCheapest);
    QCOMPARE(settings.load.max_itl_ms, 0.0);
    for (const char* name : {"policy", "max_itl_ms"})
      QVERIFY2(warning.find(name) != std::string::npos, name);
  }

  void unknownKeysSurvive() {
    write(R"({"model":"m","future":{"x":[1,2]},"server":{"new":true}})");
    std::string warning;
    Settings settings = Settings::load_file(warning);
    QVERIFY(settings.save().ok());
    std::stringstream text;
    text << std::ifstream(Settings::path()).rdbuf();
    QVERIFY(text.str().find("\"future\"") != std::string::npos);
    QVERIFY(text.str().find("\"new\": true") != std::string::npos);
  }

  void aWrongTypeFallsBackAndIsNamed() {
    write(R"({"model":7,"server":{"port":"eighty","host":"127.0.0.1"},"load":{"num_blocks":-4}})");
    std::string warning;
    const Settings settings = Settings::load_file(warning);
    QCOMPARE(settings.model, std::string("starter"));
    QCOMPARE(settings.server.port, 8080);
    QCOMPARE(settings.load.num_blocks, 0);
    for (const char* name : {"model", "port", "num_blocks"}) {
      QVERIFY2(warning.find(name) != std::string::npos, name);
    }
  }

  void aBrokenFileIsKeptAside() {
    write("{ this is not json");
    std::string warning;
    const Settings settings = Settings::load_file(warning);
    QCOMPARE(settings.model, std::string("starter"));
    QVERIFY(!warning.empty());
    QVERIFY(QFile::exists(QString::fromStdString(Settings::path() + ".bad")));
  }

  void relativeXdgValuesAreIgnored() {
    qputenv("XDG_CONFIG_HOME", "relative/path");
    qputenv("HOME", "/home/someone");
    QCOMPARE(config_dir(), std::string("/home/someone/.config/quire"));
  }

  void byteCountsAreReadable() {
    QCOMPARE(readable_bytes(512), std::string("512 B"));
    QCOMPARE(readable_bytes(98362432), std::string("93.8 MiB"));
    QVERIFY(free_memory_bytes() > 0);
  }
};

QUIRE_TEST(TestSettings)
#include "tst_settings.moc"
