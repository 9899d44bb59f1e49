#pragma once

#include <QMainWindow>
#include <QStringList>

#include "engine/settings.h"
#include "ui/engine_client.h"
#include "ui/message_bar.h"

class QActionGroup;
class QDockWidget;
class QLabel;
class QProgressBar;
class QStackedWidget;
class QToolButton;

namespace quire {

class ChatPage;
class ChatStore;
class ModelLoader;
class ModelsPage;
class ThemeController;

// The program's window: a rail with the pages Chat, Models, Engine and Server, bars that say what
// happened, a dock that shows the engine beside the chat, and a status bar.
class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  // All must outlive the window.
  MainWindow(EngineClient* client, ChatStore* store, Settings* settings);
  ~MainWindow() override;

  enum Page { Chat, Models, EngineView, Server };
  void showPage(Page page);

  // Loads `model`, or what the settings name when empty.
  void start(const QString& model);
  // Files handed over by another start, dropped or chosen: the first is loaded. Raises the window.
  void openPaths(const QStringList& paths);
  void showMessage(const BarMessage& message);

  MessageBarStack* bars() const { return m_bars; }
  ModelLoader* loader() const { return m_loader; }

 protected:
  void closeEvent(QCloseEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void buildPages();
  QWidget* buildRail();
  void buildDock();
  void buildStatusBar();
  void buildMenus();
  void buildFileMenu();
  void buildEditMenu();
  void buildViewMenu();
  void buildEngineMenu();
  void sayPaused();
  void buildHelpMenu();
  void chooseFile();
  void chooseFolder();
  void showShortcuts();
  void updateStatus();
  void showTemplateNote();
  void updateDock();
  void applyRailTheme();
  void restoreLayout();
  void saveLayout();

  EngineClient* m_client;
  ChatStore* m_store;
  Settings* m_settings;
  ThemeController* m_theme;
  ModelLoader* m_loader;

  MessageBarStack* m_bars;
  QStackedWidget* m_pages;
  QWidget* m_rail = nullptr;
  QActionGroup* m_pageActions;
  ChatPage* m_chatPage = nullptr;
  ModelsPage* m_modelsPage = nullptr;
  QDockWidget* m_dock = nullptr;
  QAction* m_dockAction = nullptr;
  bool m_dockWanted = true;   // the person's choice; narrow windows hide it all the same
  bool m_dockChosen = false;  // false: shown only where the window is wide enough
  bool m_pauseSaid = false;   // of this pause
  bool m_dockSized = false;   // its width was restored or set once
  QLabel* m_modelLabel = nullptr;
  QLabel* m_backendLabel = nullptr;
  QLabel* m_serverLabel = nullptr;
  QProgressBar* m_loadProgress = nullptr;
};

}  // namespace quire
