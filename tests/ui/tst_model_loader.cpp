#include <QDir>
#include <QFile>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QSignalSpy>
#include <QTreeWidget>

#include "engine/paths.h"
#include "tests/support/test_main.h"
#include "tests/ui/fakes.h"
#include "ui/model_loader.h"
#include "ui/models_page.h"

using namespace quire;
using namespace quire::test;

namespace {

struct Bench {
  std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();
  EngineClient client{host};
  Settings settings;
  ModelLoader loader{&client, &settings};
  QStringList notices;

  Bench() {
    QObject::connect(&loader, &ModelLoader::notice,
                     [this](const BarMessage& message) { notices << message.text; });
  }
  std::string lastLoad() { return host->loaded().empty() ? "" : host->loaded().back().first; }
  void finishLoad(HostState state, const std::string& error = {}) {
    HostStatus status;
    status.state = state;
    status.error = error;
    host->set(status, state == HostState::kReady ? std::make_shared<FakeModel>() : nullptr);
  }
};

void emptyLibrary() {
  QDir(QString::fromStdString(models_dir())).removeRecursively();
  QFile::remove(QString::fromStdString(Settings::path()));
}

}  // namespace

class TestModelLoader : public QObject {
  Q_OBJECT
 private slots:
  void init() { emptyLibrary(); }

  void missingStarterFallsBackAndSaysSo();
  void markerOfACrashedLoadAsksFirst();
  void markerIsKeptWhileLoadingAndClearedAfter();
  void openedModelIsTheNextStartsModel();
  void failedLoadIsASentenceAndNotRemembered();
  void unknownNameIsASentence();
  void pageShowsProgressAndCancels();
  void pageListsTheBuiltInModel();
};

void TestModelLoader::missingStarterFallsBackAndSaysSo() {
  Bench bench;
  bench.loader.loadAtStart();
  QTRY_COMPARE(bench.lastLoad(), std::string(kBuiltinTiny));
  QCOMPARE(bench.notices.size(), 1);
  bench.finishLoad(HostState::kReady);
  QTRY_VERIFY(bench.settings.load_marker.empty());
  QCOMPARE(bench.settings.model, std::string("starter"));
}

void TestModelLoader::markerOfACrashedLoadAsksFirst() {
  Bench bench;
  bench.settings.load_marker = "bad-model";
  bench.loader.loadAtStart();
  QTest::qWait(50);
  QVERIFY(bench.host->loaded().empty());
  QCOMPARE(bench.notices.size(), 1);
  QVERIFY(bench.notices.first().contains(QStringLiteral("bad-model")));
  QVERIFY(bench.settings.load_marker.empty());
}

void TestModelLoader::markerIsKeptWhileLoadingAndClearedAfter() {
  Bench bench;
  bench.loader.open(QString::fromLatin1(kBuiltinTiny));
  QTRY_COMPARE(bench.lastLoad(), std::string(kBuiltinTiny));
  std::string warning;
  QCOMPARE(Settings::load_file(warning).load_marker, std::string(kBuiltinTiny));
  bench.finishLoad(HostState::kReady);
  QTRY_VERIFY(Settings::load_file(warning).load_marker.empty());
}

void TestModelLoader::openedModelIsTheNextStartsModel() {
  Bench bench;
  bench.loader.open(QString::fromLatin1(kBuiltinTiny));
  QTRY_COMPARE(bench.lastLoad(), std::string(kBuiltinTiny));
  bench.finishLoad(HostState::kReady);
  std::string warning;
  QTRY_COMPARE(Settings::load_file(warning).model, std::string(kBuiltinTiny));
}

void TestModelLoader::failedLoadIsASentenceAndNotRemembered() {
  Bench bench;
  bench.loader.open(QString::fromLatin1(kBuiltinTiny));
  QTRY_COMPARE(bench.lastLoad(), std::string(kBuiltinTiny));
  bench.finishLoad(HostState::kFailed, "The file ends too early.");
  QTRY_COMPARE(bench.notices, QStringList{QStringLiteral("The file ends too early.")});
  QCOMPARE(bench.settings.model, std::string("starter"));
}

void TestModelLoader::unknownNameIsASentence() {
  Bench bench;
  bench.loader.open(QStringLiteral("no-such-model"));
  QTRY_COMPARE(bench.notices.size(), 1);
  QVERIFY(bench.host->loaded().empty());
}

void TestModelLoader::pageShowsProgressAndCancels() {
  Bench bench;
  ModelsPage page(&bench.client, &bench.loader);
  page.resize(700, 500);
  page.show();
  HostStatus status;
  status.state = HostState::kLoading;
  status.model = "some-model";
  status.progress = {50, 100, "packing"};
  bench.host->set(status, nullptr);
  auto* progress = page.findChild<QProgressBar*>();
  QTRY_VERIFY(progress->isVisible());
  QCOMPARE(progress->value(), progress->maximum() / 2);
  for (QPushButton* button : page.findChildren<QPushButton*>()) {
    if (button->text() == QStringLiteral("Cancel")) button->click();
  }
  QTRY_COMPARE(bench.host->cancels.load(), 1);
  bench.finishLoad(HostState::kReady);
  QTRY_VERIFY(!progress->isVisible());
}

void TestModelLoader::pageListsTheBuiltInModel() {
  Bench bench;
  ModelsPage page(&bench.client, &bench.loader);
  page.show();
  auto* library = page.findChild<QTreeWidget*>();
  bench.loader.refreshLibrary();
  QTRY_COMPARE(library->topLevelItemCount(), 1);
  library->setCurrentItem(library->topLevelItem(0));
  for (QPushButton* button : page.findChildren<QPushButton*>()) {
    if (button->text() == QStringLiteral("&Load")) button->click();
  }
  QTRY_COMPARE(bench.lastLoad(), std::string(kBuiltinTiny));
}

QUIRE_TEST(TestModelLoader)
#include "tst_model_loader.moc"
