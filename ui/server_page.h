#pragma once

#include <QWidget>
#include <memory>

#include "engine/server/http_server.h"
#include "engine/settings.h"
#include "ui/engine_client.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QPushButton;
class QSpinBox;
class QTableView;

namespace quire {

class RequestLogModel;

// The Server page: starts and stops the API beside the window, shows its address, key and a snippet
// to copy, and lists the requests it answered. Starting and stopping happen on a worker thread.
class ServerPage : public QWidget {
  Q_OBJECT
 public:
  // `settings` must outlive the page.
  ServerPage(EngineClient* client, Settings* settings, QWidget* parent = nullptr);
  ~ServerPage() override;

  void startServer();
  void startOn(int port);  // keeps the port in the settings
  void stopServer();
  bool running() const { return m_server != nullptr; }

 signals:
  void addressChanged(const QString& address);  // empty: stopped
  // Starting failed: a sentence, and a port that is free when the wanted one is taken (else 0).
  void startFailed(const QString& text, int freePort);

 private:
  QWidget* buildHead();
  QWidget* buildSettings();
  QWidget* buildSnippet();
  void begin(int port);
  void started(std::shared_ptr<Result<std::unique_ptr<HttpServer>>> result, int port);
  void showProblem(const QString& text, int freePort);
  void refreshState();
  void updateSnippet();
  void saveSettings();
  QString apiBase() const;

  EngineClient* m_client;
  Settings* m_settings;
  std::shared_ptr<HttpServer> m_server;
  std::shared_ptr<void> m_logToken;
  bool m_busy = false;
  RequestLogModel* m_log;

  QLabel* m_state = nullptr;
  QPushButton* m_toggle = nullptr;
  QPushButton* m_copyAddress = nullptr;
  QWidget* m_problem = nullptr;
  QLabel* m_problemText = nullptr;
  QPushButton* m_useFreePort = nullptr;
  QComboBox* m_host = nullptr;
  QSpinBox* m_port = nullptr;
  QLineEdit* m_key = nullptr;
  QCheckBox* m_autostart = nullptr;
  QComboBox* m_snippetKind = nullptr;
  QPlainTextEdit* m_snippet = nullptr;
  QTableView* m_table = nullptr;
};

}  // namespace quire
