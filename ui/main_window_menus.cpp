// The menus of MainWindow.
#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QDesktopServices>
#include <QDialog>
#include <QDialogButtonBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QStackedWidget>
#include <QUrl>
#include <QVBoxLayout>
#include <utility>

#include "ui/about_dialog.h"
#include "ui/chat_page.h"
#include "ui/help_window.h"
#include "ui/icons.h"
#include "ui/log.h"
#include "ui/main_window.h"
#include "ui/model_loader.h"
#include "ui/theme.h"

namespace quire {
namespace {

template <typename Slot>
QAction* add(QMenu* menu, const QString& text, const QKeySequence& keys, QObject* context,
             Slot slot) {
  QAction* action = menu->addAction(text);
  action->setShortcut(keys);
  QObject::connect(action, &QAction::triggered, context, slot);
  return action;
}

}  // namespace

void MainWindow::buildMenus() {
  buildFileMenu();
  buildEditMenu();
  buildViewMenu();
  buildEngineMenu();
  buildHelpMenu();
}

void MainWindow::buildFileMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&File"));
  add(menu, tr("&New Chat"), QKeySequence::New, this, [this] {
    showPage(Chat);
    m_chatPage->newChat();
  })->setIcon(icon(QStringLiteral("new")));
  menu->addSeparator();
  add(menu, tr("&Open Model…"), QKeySequence::Open, this, [this] {
    chooseFile();
  })->setIcon(icon(QStringLiteral("open")));
  add(menu, tr("Open Model &Folder…"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_O), this,
      [this] { chooseFolder(); });
  menu->addSeparator();
  add(menu, tr("&Quit"), QKeySequence::Quit, this, [this] {
    close();
  })->setMenuRole(QAction::QuitRole);
}

void MainWindow::buildEditMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&Edit"));
  add(menu, tr("&Copy Last Reply"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C), this, [this] {
    m_chatPage->copyLastReply();
  })->setIcon(icon(QStringLiteral("copy")));
  add(menu, tr("&Edit Last Message"), {}, this, [this] {
    m_chatPage->editLast();
  })->setIcon(icon(QStringLiteral("edit")));
  add(menu, tr("&Regenerate Reply"), QKeySequence(Qt::CTRL | Qt::Key_R), this, [this] {
    m_chatPage->regenerate();
  })->setIcon(icon(QStringLiteral("retry")));
  menu->addSeparator();
  add(menu, tr("&Find in Chats…"), QKeySequence::Find, this, [this] {
    showPage(Chat);
    m_chatPage->focusSearch();
  })->setIcon(icon(QStringLiteral("search")));
  menu->addSeparator();
  add(menu, tr("Chat &Settings…"), QKeySequence(Qt::CTRL | Qt::Key_Comma), this, [this] {
    showPage(Chat);
    m_chatPage->showSettings();
  })->setIcon(icon(QStringLiteral("settings")));
}

void MainWindow::buildViewMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&View"));
  menu->addActions(m_pageActions->actions());
  menu->addSeparator();
  add(menu, tr("Chat &List"), QKeySequence(Qt::CTRL | Qt::Key_B), this, [this] {
    m_chatPage->toggleList();
  })->setIcon(icon(QStringLiteral("sidebar")));
  menu->addAction(m_dockAction);
  menu->addSeparator();
  QMenu* themes = menu->addMenu(tr("&Theme"));
  auto* group = new QActionGroup(this);
  const std::pair<QString, QString> modes[] = {{QStringLiteral("system"), tr("&System")},
                                               {QStringLiteral("light"), tr("&Light")},
                                               {QStringLiteral("dark"), tr("&Dark")}};
  for (const auto& [mode, name] : modes) {
    QAction* action = add(themes, name, {}, this, [this, mode = mode] {
      m_theme->setMode(mode);
      m_settings->theme = mode.toStdString();
      m_loader->saveSettings();
    });
    action->setCheckable(true);
    action->setChecked(m_theme->mode() == mode);
    group->addAction(action);
  }
  menu->addSeparator();
  QAction* full = add(menu, tr("&Full Screen"), QKeySequence(Qt::Key_F11), this,
                      [this](bool on) { on ? showFullScreen() : showNormal(); });
  full->setCheckable(true);
}

void MainWindow::buildEngineMenu() {
  QMenu* menu = menuBar()->addMenu(tr("E&ngine"));
  QAction* pause = add(menu, tr("&Pause Between Steps"), QKeySequence(Qt::CTRL | Qt::Key_P), this,
                       [this](bool on) { on ? m_client->pause() : m_client->resume(); });
  pause->setCheckable(true);
  QAction* step = add(menu, tr("Run One &Step"), QKeySequence(Qt::CTRL | Qt::Key_Period), this,
                      [this] { m_client->step(1); });
  menu->addSeparator();
  QAction* reload =
      add(menu, tr("&Reload Model"), {}, this, [this] { m_client->reload(m_settings->load); });
  const auto update = [this, pause, step, reload] {
    const bool ready = m_client->model() != nullptr;
    pause->setEnabled(ready);
    pause->setChecked(ready && m_client->paused());
    step->setEnabled(ready && m_client->paused());
    reload->setEnabled(ready);
  };
  connect(m_client, &EngineClient::modelChanged, this, update);
  connect(m_client, &EngineClient::pausedChanged, this, update);
  connect(m_client, &EngineClient::pausedChanged, this, [this](bool paused) {
    m_pauseSaid = false;
    if (!paused) m_bars->remove(QStringLiteral("paused"));
    sayPaused();
  });
  update();
}

// A paused engine answers nobody, API clients included, so the window says so, once. The Engine
// page does it itself: a bar would move its buttons away from under the pointer.
void MainWindow::sayPaused() {
  if (!m_client->paused() || m_pages->currentIndex() == EngineView) return;
  if (std::exchange(m_pauseSaid, true)) return;
  BarMessage message;
  message.kind = BarKind::Warning;
  message.key = QStringLiteral("paused");
  message.text =
      tr("The engine is paused between steps. Answers, and programs using the server, "
         "wait until it runs again.");
  message.actions = {{tr("Resume"), [this] { m_client->resume(); }}};
  m_bars->show(message);
}

void MainWindow::buildHelpMenu() {
  QMenu* menu = menuBar()->addMenu(tr("&Help"));
  add(menu, tr("Quire &Help"), QKeySequence::HelpContents, this, [this] {
    auto* help = new HelpWindow(this);  // beside the window, so that it can be read while using it
    help->setAttribute(Qt::WA_DeleteOnClose);
    help->show();
  });
  add(menu, tr("&Keyboard Shortcuts"), QKeySequence(Qt::CTRL | Qt::Key_Slash), this,
      [this] { showShortcuts(); });
  add(menu, tr("Show &Log File"), {}, this,
      [] { QDesktopServices::openUrl(QUrl::fromLocalFile(QFileInfo(logFilePath()).path())); });
  menu->addSeparator();
  add(menu, tr("&About Quire"), {}, this, [this] {
    const auto model = m_client->model();
    AboutDialog(model.get(), this).exec();
  })->setMenuRole(QAction::AboutRole);
}

void MainWindow::showShortcuts() {
  QDialog dialog(this);
  dialog.setWindowTitle(tr("Keyboard Shortcuts"));
  auto* layout = new QVBoxLayout(&dialog);
  auto* rows = new QFormLayout;
  rows->setHorizontalSpacing(32);
  const auto row = [&](const QString& what, const QString& keys) {
    rows->addRow(what, new QLabel(keys));
  };
  row(tr("Send the message"), tr("Enter"));
  row(tr("New line"), tr("Shift+Enter"));
  row(tr("Stop the answer"), tr("Esc"));
  row(tr("Edit the last message (in an empty input)"), tr("Up"));
  for (const QAction* top : menuBar()->actions()) {
    for (const QAction* action : top->menu()->actions()) {
      if (action->shortcut().isEmpty()) continue;
      row(action->text().remove(QLatin1Char('&')).remove(QStringLiteral("…")),
          action->shortcut().toString(QKeySequence::NativeText));
    }
  }
  layout->addLayout(rows);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  connect(buttons, &QDialogButtonBox::rejected, &dialog, &QDialog::reject);
  layout->addWidget(buttons);
  dialog.exec();
}

}  // namespace quire
