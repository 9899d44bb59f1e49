#include <QAbstractButton>
#include <QAction>
#include <QApplication>
#include <QDropEvent>
#include <QListWidget>
#include <QMenuBar>
#include <QMimeData>
#include <QTemporaryDir>

#include "tests/support/test_main.h"
#include "tests/ui/fakes.h"
#include "ui/chat_page.h"
#include "ui/chat_store.h"
#include "ui/composer.h"
#include "ui/help_window.h"
#include "ui/main_window.h"
#include "ui/markdown_view.h"
#include "ui/theme.h"

using namespace quire;
using namespace quire::test;

namespace {

struct Bench {
  QTemporaryDir dir;
  std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();
  std::shared_ptr<FakeModel> model = host->makeReady();
  EngineClient client{host};
  ChatStore store{dir.filePath(QStringLiteral("chats.sqlite"))};
  Settings settings;
  std::unique_ptr<MainWindow> window;

  Bench() {
    settings.server.autostart = false;
    window = std::make_unique<MainWindow>(&client, &store, &settings);
    window->show();
  }
};

QList<QAction*> allActions(const QMenuBar* bar) {
  QList<QAction*> result;
  for (const QAction* top : bar->actions()) {
    for (QAction* action : top->menu()->actions()) {
      if (action->menu() != nullptr) {
        result << action->menu()->actions();
      } else if (!action->isSeparator()) {
        result << action;
      }
    }
  }
  return result;
}

}  // namespace

class TestMainWindow : public QObject {
  Q_OBJECT
 private slots:
  void everyButtonHasAName();
  void shortcutsAreUnique();
  void fitsNarrowWindows();
  void droppedFileIsOpened();
  void pausedEngineIsSaid();
  void pausingOnTheEnginePageMovesNothing();
  void missingChatTemplateIsSaid();
  void themeFollowsTheMenu();
  void everyHelpPageHasItsText();
};

void TestMainWindow::everyButtonHasAName() {
  Bench bench;
  for (const QAbstractButton* button : bench.window->findChildren<QAbstractButton*>()) {
    const bool ours = !button->objectName().startsWith(QStringLiteral("qt_")) &&
                      !button->inherits("QLineEditIconButton") &&
                      !button->inherits("QTableCornerButton");
    if (!ours || !button->text().isEmpty()) continue;
    QVERIFY2(!button->accessibleName().isEmpty(),
             qPrintable(QLatin1String(button->metaObject()->className()) + QLatin1Char(' ') +
                        button->objectName()));
  }
}

void TestMainWindow::shortcutsAreUnique() {
  Bench bench;
  QStringList seen;
  for (const QAction* action : allActions(bench.window->menuBar())) {
    if (action->shortcut().isEmpty()) continue;
    const QString keys = action->shortcut().toString();
    QVERIFY2(!seen.contains(keys), qPrintable(keys));
    seen << keys;
  }
  QVERIFY(seen.size() > 10);
}

void TestMainWindow::fitsNarrowWindows() {
  Bench bench;
  bench.window->resize(360, 500);
  QTest::qWait(20);
  QVERIFY2(bench.window->width() <= 360, qPrintable(QString::number(bench.window->width())));
}

void TestMainWindow::droppedFileIsOpened() {
  Bench bench;
  QMimeData data;
  QTemporaryDir folder;
  data.setUrls({QUrl::fromLocalFile(folder.path())});
  QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(bench.window.get(), &enter);
  QVERIFY(enter.isAccepted());
  QDropEvent event(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(bench.window.get(), &event);
  QTRY_COMPARE(bench.host->loaded().size(), std::size_t(1));
  QCOMPARE(bench.host->loaded()[0].first, folder.path().toStdString());
}

void TestMainWindow::pausedEngineIsSaid() {
  Bench bench;
  bench.client.pause();
  QVERIFY(bench.window->bars()->texts().join(QLatin1Char(' ')).contains(QStringLiteral("paused")));
  bench.client.resume();
  QVERIFY(bench.window->bars()->texts().isEmpty());
}

void TestMainWindow::pausingOnTheEnginePageMovesNothing() {
  Bench bench;
  bench.window->showPage(MainWindow::EngineView);
  bench.client.pause();
  QVERIFY(bench.window->bars()->texts().isEmpty());
  bench.window->showPage(MainWindow::Chat);
  QCOMPARE(bench.window->bars()->texts().size(), 1);
  bench.client.resume();
  QVERIFY(bench.window->bars()->texts().isEmpty());
}

void TestMainWindow::missingChatTemplateIsSaid() {
  Bench bench;
  auto bare = std::make_shared<FakeModel>();
  bare->template_note = "The model brings no chat template, so a plain one is used.";
  HostStatus ready;
  ready.state = HostState::kReady;
  bench.host->set(ready, bare);
  QTRY_VERIFY(bench.window->bars()
                  ->texts()
                  .join(QLatin1Char(' '))
                  .contains(QStringLiteral("no chat template")));
  bench.host->makeReady();
  QTRY_VERIFY(bench.window->bars()->texts().isEmpty());
}

void TestMainWindow::themeFollowsTheMenu() {
  Bench bench;
  for (QAction* action : allActions(bench.window->menuBar())) {
    if (action->text() == QStringLiteral("&Dark")) action->trigger();
  }
  QVERIFY(Theme::current().dark);
  QCOMPARE(bench.settings.theme, std::string("dark"));
  for (QAction* action : allActions(bench.window->menuBar())) {
    if (action->text() == QStringLiteral("&Light")) action->trigger();
  }
  QVERIFY(!Theme::current().dark);
}

void TestMainWindow::everyHelpPageHasItsText() {
  HelpWindow help;
  auto* pages = help.findChild<QListWidget*>();
  QVERIFY(pages->count() >= 3);
  for (int row = 0; row < pages->count(); ++row) {
    pages->setCurrentRow(row);
    const QString text = help.findChild<MarkdownView*>()->text();
    QVERIFY(text.startsWith(QLatin1String("# ")));
    QCOMPARE(text.section(u'\n', 0, 0).mid(2), pages->item(row)->text());
    QVERIFY2(text.size() > 400, qPrintable(text));
  }
}

QUIRE_TEST(TestMainWindow)
#include "tst_main_window.moc"
