#include "ui/main_window.h"

#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QMimeData>
#include <QProgressBar>
#include <QScreen>
#include <QSettings>
#include <QStackedWidget>
#include <QStatusBar>
#include <QStyle>
#include <QToolButton>
#include <QUrl>
#include <QVBoxLayout>

#include "engine/paths.h"
#include "ui/chat_page.h"
#include "ui/elided_label.h"
#include "ui/engine_page.h"
#include "ui/engine_panel.h"
#include "ui/icons.h"
#include "ui/model_loader.h"
#include "ui/models_page.h"
#include "ui/server_page.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kRailWidth = 76;
constexpr int kDockMinWindowWidth = 1200;  // narrower windows start without the engine dock
constexpr int kDockWidth = 420;
constexpr int kMinWidth = 360, kMinHeight = 360;
constexpr int kLayoutVersion = 1;
constexpr std::size_t kProgressSteps = 1000;

QString text(const std::string& value) {
  return QString::fromStdString(value);
}

QString layoutFile() {
  return text(state_dir() + "/window.ini");
}

// The first local path of a drop that could be a model; empty if there is none.
QStringList localPaths(const QMimeData* data) {
  QStringList paths;
  for (const QUrl& url : data->urls()) {
    if (url.isLocalFile()) paths << url.toLocalFile();
  }
  return paths;
}

}  // namespace

MainWindow::MainWindow(EngineClient* client, ChatStore* store, Settings* settings)
    : m_client(client),
      m_store(store),
      m_settings(settings),
      m_theme(new ThemeController(this)),
      m_loader(new ModelLoader(client, settings, this)),
      m_bars(new MessageBarStack),
      m_pages(new QStackedWidget),
      m_pageActions(new QActionGroup(this)) {
  setWindowTitle(tr("Quire"));
  setWindowIcon(applicationIcon());
  setMinimumSize(kMinWidth, kMinHeight);
  setAcceptDrops(true);
  m_theme->setMode(text(settings->theme));

  auto* middle = new QWidget;
  auto* column = new QVBoxLayout(middle);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(m_bars);
  column->addWidget(m_pages, 1);

  auto* central = new QWidget;
  auto* row = new QHBoxLayout(central);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  m_rail = buildRail();
  row->addWidget(m_rail);
  row->addWidget(middle, 1);
  setCentralWidget(central);

  buildStatusBar();
  buildPages();
  buildDock();
  buildMenus();
  connect(m_loader, &ModelLoader::notice, this, &MainWindow::showMessage);
  connect(m_client, &EngineClient::statusChanged, this, &MainWindow::updateStatus);
  connect(m_client, &EngineClient::modelChanged, this, &MainWindow::updateStatus);
  connect(m_client, &EngineClient::modelChanged, this, &MainWindow::showTemplateNote);
  updateStatus();
  showTemplateNote();
  applyRailTheme();
  restoreLayout();
  showPage(Chat);
}

MainWindow::~MainWindow() = default;

QWidget* MainWindow::buildRail() {
  struct Entry {
    Page page;
    QString icon, name;
  };
  const Entry entries[] = {{Chat, QStringLiteral("chat"), tr("Chat")},
                           {Models, QStringLiteral("models"), tr("Models")},
                           {EngineView, QStringLiteral("engine"), tr("Engine")},
                           {Server, QStringLiteral("server"), tr("Server")}};
  auto* rail = new QFrame;
  rail->setObjectName(QStringLiteral("rail"));
  rail->setFixedWidth(kRailWidth);
  auto* layout = new QVBoxLayout(rail);
  layout->setContentsMargins(6, 8, 6, 8);
  layout->setSpacing(4);
  for (const Entry& entry : entries) {
    auto* action = new QAction(icon(entry.icon), entry.name, this);
    action->setCheckable(true);
    action->setShortcut(QKeySequence(Qt::CTRL | (Qt::Key_1 + static_cast<int>(entry.page))));
    connect(action, &QAction::triggered, this, [this, page = entry.page] { showPage(page); });
    m_pageActions->addAction(action);

    auto* button = new QToolButton;
    button->setDefaultAction(action);
    button->setToolButtonStyle(Qt::ToolButtonTextUnderIcon);
    button->setIconSize(QSize(24, 24));
    button->setAutoRaise(true);
    button->setFocusPolicy(Qt::TabFocus);
    button->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    button->setToolTip(
        tr("%1 (%2)").arg(entry.name, action->shortcut().toString(QKeySequence::NativeText)));
    layout->addWidget(button);
  }
  layout->addStretch();
  return rail;
}

void MainWindow::buildPages() {
  m_chatPage = new ChatPage(m_client, m_store);
  connect(m_chatPage, &ChatPage::notice, this, &MainWindow::showMessage);
  connect(m_chatPage, &ChatPage::modelWanted, this, [this] { showPage(Models); });
  m_modelsPage = new ModelsPage(m_client, m_loader);
  connect(m_modelsPage, &ModelsPage::openFileWanted, this, &MainWindow::chooseFile);
  connect(m_modelsPage, &ModelsPage::openFolderWanted, this, &MainWindow::chooseFolder);
  m_pages->addWidget(m_chatPage);
  m_pages->addWidget(m_modelsPage);
  m_pages->addWidget(new EnginePage(m_client, m_settings));
  auto* serverPage = new ServerPage(m_client, m_settings);
  connect(serverPage, &ServerPage::addressChanged, m_serverLabel, [this](const QString& address) {
    m_serverLabel->setText(address.isEmpty() ? tr("Server off") : address);
  });
  connect(serverPage, &ServerPage::startFailed, this,
          [this, serverPage](const QString& text, int freePort) {
            BarMessage message;
            message.kind = BarKind::Warning;
            message.key = QStringLiteral("server");
            message.text = tr("The API server did not start: %1").arg(text);
            if (freePort > 0) {
              message.actions.push_back({tr("Use port %1").arg(freePort), [serverPage, freePort] {
                                           serverPage->startOn(freePort);
                                         }});
            }
            message.actions.push_back({tr("Server page"), [this] { showPage(Server); }});
            showMessage(message);
          });
  m_pages->addWidget(serverPage);
}

void MainWindow::buildDock() {
  m_dock = new QDockWidget(tr("Engine"), this);
  m_dock->setObjectName(QStringLiteral("engineDock"));
  m_dock->setAllowedAreas(Qt::LeftDockWidgetArea | Qt::RightDockWidgetArea |
                          Qt::BottomDockWidgetArea);
  m_dock->setWidget(new EnginePanel(m_client));
  addDockWidget(Qt::RightDockWidgetArea, m_dock);
  m_dockAction = new QAction(tr("Engine &Panel"), this);
  m_dockAction->setCheckable(true);
  m_dockAction->setShortcut(QKeySequence(Qt::Key_F8));
  connect(m_dockAction, &QAction::triggered, this, [this](bool wanted) {
    m_dockWanted = wanted;
    m_dockChosen = true;
    if (wanted && m_pages->currentIndex() == EngineView) showPage(Chat);
    updateDock();
  });
  // Also emitted while the window is being destroyed, when there is no MainWindow any more.
  connect(m_dock, &QDockWidget::visibilityChanged, m_dockAction,
          [dock = m_dock, action = m_dockAction] { action->setChecked(!dock->isHidden()); });
  m_dock->installEventFilter(this);
}

void MainWindow::buildStatusBar() {
  m_modelLabel = new ElidedLabel;
  m_backendLabel = new ElidedLabel;
  m_serverLabel = new ElidedLabel(tr("Server off"));
  m_loadProgress = new QProgressBar;
  m_loadProgress->setRange(0, static_cast<int>(kProgressSteps));
  m_loadProgress->setMaximumWidth(140);
  m_loadProgress->setTextVisible(false);
  m_loadProgress->setAccessibleName(tr("Model load progress"));
  m_loadProgress->hide();
  for (QLabel* label : {m_modelLabel, m_backendLabel, m_serverLabel}) {
    label->setTextFormat(Qt::PlainText);
    label->setContentsMargins(6, 0, 6, 0);
    label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    label->setMinimumWidth(20);
  }
  statusBar()->addWidget(m_modelLabel, 3);
  statusBar()->addWidget(m_loadProgress);
  statusBar()->addWidget(m_backendLabel, 3);
  statusBar()->addWidget(m_serverLabel, 3);
}

void MainWindow::showPage(Page page) {
  if (page < m_pages->count()) m_pages->setCurrentIndex(page);
  m_pageActions->actions().at(m_pages->currentIndex())->setChecked(true);
  updateDock();
  sayPaused();
  if (page == Chat) m_chatPage->focusInput();
  if (page == Models) m_loader->refreshLibrary();
}

void MainWindow::updateDock() {
  const bool room = m_dockChosen || width() >= kDockMinWindowWidth;
  const bool show =
      m_dockWanted && room && m_pages->currentIndex() != EngineView && m_dock->widget() != nullptr;
  if (m_dock->isHidden() != show) return;
  m_dock->setVisible(show);
  if (show && !std::exchange(m_dockSized, true)) {
    resizeDocks({m_dock}, {kDockWidth}, Qt::Horizontal);
  }
}

void MainWindow::start(const QString& model) {
  m_loader->loadAtStart(model);
}

void MainWindow::openPaths(const QStringList& paths) {
  if (isMinimized()) showNormal();
  show();
  raise();
  activateWindow();
  if (paths.isEmpty()) return;
  showPage(Models);
  m_loader->open(QFileInfo(paths.first()).absoluteFilePath());
}

void MainWindow::showMessage(const BarMessage& message) {
  m_bars->show(message);
}

void MainWindow::chooseFile() {
  const QString file = QFileDialog::getOpenFileName(this, tr("Open Model"), text(models_dir()),
                                                    tr("GGUF models (*.gguf);;All files (*)"));
  if (!file.isEmpty()) openPaths({file});
}

void MainWindow::chooseFolder() {
  const QString folder =
      QFileDialog::getExistingDirectory(this, tr("Open Model Folder"), text(models_dir()));
  if (!folder.isEmpty()) openPaths({folder});
}

void MainWindow::updateStatus() {
  const HostStatus& status = m_client->status();
  const auto model = m_client->model();
  m_loadProgress->setVisible(status.state == HostState::kLoading);
  const QString name = text(status.model);
  switch (status.state) {
    case HostState::kEmpty:
      m_modelLabel->setText(tr("No model"));
      break;
    case HostState::kDraining:
      m_modelLabel->setText(tr("Finishing running answers before “%1”…").arg(name));
      break;
    case HostState::kLoading: {
      m_modelLabel->setText(tr("Loading %1…").arg(name));
      const std::size_t total = std::max<std::size_t>(status.progress.bytes_total, 1);
      m_loadProgress->setValue(static_cast<int>(static_cast<double>(status.progress.bytes_done) /
                                                static_cast<double>(total) * kProgressSteps));
      break;
    }
    case HostState::kFailed:
      m_modelLabel->setText(tr("No model: loading failed"));
      break;
    case HostState::kReady:
      m_modelLabel->setText(model ? model->id : name);
      break;
  }
  m_backendLabel->setText(model ? model->backend : QString());
  m_modelLabel->setToolTip(model ? tr("%1\n%2").arg(model->name, model->description)
                                 : m_modelLabel->text());
  m_backendLabel->setToolTip(m_backendLabel->text());
}

void MainWindow::showTemplateNote() {
  const QString key = QStringLiteral("template");
  const auto model = m_client->model();
  if (!model || model->templateNote.isEmpty()) {
    m_bars->remove(key);
    return;
  }
  BarMessage message;
  message.kind = BarKind::Warning;
  message.key = key;
  message.text = tr("%1: %2").arg(model->id, model->templateNote);
  showMessage(message);
}

void MainWindow::restoreLayout() {
  QSettings layout(layoutFile(), QSettings::IniFormat);
  const QByteArray geometry = layout.value(QStringLiteral("window/geometry")).toByteArray();
  if (geometry.isEmpty() || !restoreGeometry(geometry)) resize(1280, 800);
  m_dockSized =
      restoreState(layout.value(QStringLiteral("window/state")).toByteArray(), kLayoutVersion);
  m_dockChosen = layout.value(QStringLiteral("engine/chosen"), false).toBool();
  m_dockWanted = layout.value(QStringLiteral("engine/wanted"), true).toBool();
  m_chatPage->restoreLayout(layout.value(QStringLiteral("chat/splitter")).toByteArray());
  m_dock->hide();
  updateDock();
}

void MainWindow::saveLayout() {
  ensure_dir(state_dir());
  QSettings layout(layoutFile(), QSettings::IniFormat);
  layout.setValue(QStringLiteral("window/geometry"), saveGeometry());
  layout.setValue(QStringLiteral("window/state"), saveState(kLayoutVersion));
  layout.setValue(QStringLiteral("engine/chosen"), m_dockChosen);
  layout.setValue(QStringLiteral("engine/wanted"), m_dockWanted);
  layout.setValue(QStringLiteral("chat/splitter"), m_chatPage->saveLayout());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  saveLayout();
  m_chatPage->finish();
  QMainWindow::closeEvent(event);
}

// The dock's own close button is a choice too.
bool MainWindow::eventFilter(QObject* object, QEvent* event) {
  if (object == m_dock && event->type() == QEvent::Close) {
    m_dockWanted = false;
    m_dockChosen = true;
  }
  return QMainWindow::eventFilter(object, event);
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  if (!m_dockChosen) updateDock();
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (!localPaths(event->mimeData()).isEmpty()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QStringList paths = localPaths(event->mimeData());
  if (paths.isEmpty()) return;
  event->acceptProposedAction();
  openPaths(paths);
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && m_rail != nullptr) applyRailTheme();
  QMainWindow::changeEvent(event);
}

void MainWindow::applyRailTheme() {
  const Theme& theme = Theme::current();
  const QString sheet =
      QStringLiteral(
          "#rail { background: %1; border: none; border-right: 1px solid %2; }"
          "#rail QToolButton { border: none; border-radius: 8px; padding: 8px 2px 6px 2px; }"
          "#rail QToolButton:hover { background: %3; }"
          "#rail QToolButton:checked { background: %4; font-weight: 600; }"
          "#rail QToolButton:focus { border: 2px solid %5; padding: 6px 0 4px 0; }")
          .arg(theme.panel.name(), theme.border.name(), theme.raised.name(), theme.infoBack.name(),
               theme.accent.name());
  if (m_rail->styleSheet() != sheet) m_rail->setStyleSheet(sheet);
}

}  // namespace quire
