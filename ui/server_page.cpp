#include "ui/server_page.h"

#include <QApplication>
#include <QCheckBox>
#include <QClipboard>
#include <QComboBox>
#include <QFontDatabase>
#include <QFormLayout>
#include <QGroupBox>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPointer>
#include <QPushButton>
#include <QRandomGenerator>
#include <QSpinBox>
#include <QTableView>
#include <QThreadPool>
#include <QVBoxLayout>

#include "ui/request_log_model.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr double kDrainSeconds = 5;

QString newKey() {
  QString key;
  for (int i = 0; i < 4; ++i) {
    key += QString::number(QRandomGenerator::system()->generate64(), 16)
               .rightJustified(16, QLatin1Char('0'));
  }
  return key;
}

bool loopback(const QString& host) {
  return host == QLatin1String("127.0.0.1") || host == QLatin1String("localhost") ||
         host == QLatin1String("::1");
}

}  // namespace

ServerPage::ServerPage(EngineClient* client, Settings* settings, QWidget* parent)
    : QWidget(parent), m_client(client), m_settings(settings), m_log(new RequestLogModel(this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(16, 14, 16, 14);
  layout->setSpacing(12);
  layout->addWidget(buildHead());
  auto* row = new QHBoxLayout;
  row->setSpacing(12);
  row->addWidget(buildSettings(), 2);
  row->addWidget(buildSnippet(), 3);
  layout->addLayout(row);

  auto* title = new QLabel(tr("Requests"), this);
  QFont bold = title->font();
  bold.setBold(true);
  title->setFont(bold);
  layout->addWidget(title);
  m_table = new QTableView(this);
  m_table->setModel(m_log);
  m_table->setAccessibleName(tr("Requests the server answered"));
  m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
  m_table->setAlternatingRowColors(true);
  m_table->setShowGrid(false);
  m_table->verticalHeader()->hide();
  m_table->horizontalHeader()->setSectionResizeMode(RequestLogModel::kRequest,
                                                    QHeaderView::Stretch);
  m_table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  const std::pair<int, const char*> widths[] = {
      {RequestLogModel::kTime, "00:00:00 "},
      {RequestLogModel::kClient, "127.0.0.1 OpenAI/Python "},
      {RequestLogModel::kStatus, "Status "},
      {RequestLogModel::kPrompt, "Prompt "},
      {RequestLogModel::kCached, "Cached "},
      {RequestLogModel::kOutput, "Output "},
      {RequestLogModel::kFirstToken, "First token "},
      {RequestLogModel::kDuration, "Duration "}};
  for (const auto& [column, sample] : widths) {
    m_table->setColumnWidth(column,
                            fontMetrics().horizontalAdvance(QString::fromLatin1(sample)) + 14);
  }
  layout->addWidget(m_table, 1);
  auto* empty = new QLabel(tr("No requests yet. Point a client at the address above."));
  empty->setForegroundRole(QPalette::PlaceholderText);
  empty->setWordWrap(true);
  empty->setAlignment(Qt::AlignCenter);
  auto* over = new QVBoxLayout(m_table->viewport());
  over->addWidget(empty);
  connect(m_log, &QAbstractItemModel::rowsInserted, empty, &QWidget::hide);

  connect(m_client, &EngineClient::modelChanged, this, &ServerPage::updateSnippet);
  refreshState();
  if (m_settings->server.autostart)
    QMetaObject::invokeMethod(this, &ServerPage::startServer, Qt::QueuedConnection);
}

ServerPage::~ServerPage() {
  m_logToken.reset();
  if (m_server) m_server->stop(0);
}

QWidget* ServerPage::buildHead() {
  auto* box = new QWidget(this);
  auto* column = new QVBoxLayout(box);
  column->setContentsMargins(0, 0, 0, 0);
  auto* row = new QHBoxLayout;
  m_state = new QLabel(box);
  QFont big = m_state->font();
  big.setPointSizeF(big.pointSizeF() * 1.2);
  m_state->setFont(big);
  m_state->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  m_copyAddress = new QPushButton(tr("Copy address"), box);
  m_toggle = new QPushButton(box);
  row->addWidget(m_state, 1);
  row->addWidget(m_copyAddress);
  row->addWidget(m_toggle);
  column->addLayout(row);

  m_problem = new QWidget(box);
  auto* problemRow = new QHBoxLayout(m_problem);
  problemRow->setContentsMargins(0, 0, 0, 0);
  m_problemText = new QLabel(m_problem);
  m_problemText->setWordWrap(true);
  m_useFreePort = new QPushButton(tr("Use another port"), m_problem);
  problemRow->addWidget(m_problemText, 1);
  problemRow->addWidget(m_useFreePort);
  m_problem->hide();
  column->addWidget(m_problem);

  connect(m_toggle, &QPushButton::clicked, this,
          [this] { running() ? stopServer() : startServer(); });
  connect(m_copyAddress, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(apiBase()); });
  connect(m_useFreePort, &QPushButton::clicked, this,
          [this] { startOn(m_useFreePort->property("port").toInt()); });
  return box;
}

QWidget* ServerPage::buildSettings() {
  auto* box = new QGroupBox(tr("Settings"), this);
  auto* form = new QFormLayout(box);
  m_host = new QComboBox(box);
  m_host->setEditable(true);
  m_host->addItems({QStringLiteral("127.0.0.1"), QStringLiteral("0.0.0.0")});
  m_host->setCurrentText(QString::fromStdString(m_settings->server.host));
  m_host->setToolTip(tr(
      "127.0.0.1: this machine only. 0.0.0.0: every machine that reaches this one; needs a key."));
  m_port = new QSpinBox(box);
  m_port->setRange(1, 65535);
  m_port->setValue(m_settings->server.port);
  m_key = new QLineEdit(QString::fromStdString(m_settings->server.api_key), box);
  m_key->setEchoMode(QLineEdit::PasswordEchoOnEdit);
  m_key->setPlaceholderText(tr("none"));
  m_key->setToolTip(tr("Without a key every program on this machine may connect"));
  auto* make = new QPushButton(tr("New key"), box);
  make->setToolTip(tr("Makes a random key and copies it"));
  auto* keyRow = new QHBoxLayout;
  keyRow->addWidget(m_key, 1);
  keyRow->addWidget(make);
  m_autostart = new QCheckBox(tr("Start with the window"), box);
  m_autostart->setChecked(m_settings->server.autostart);
  form->addRow(tr("&Address"), m_host);
  form->addRow(tr("&Port"), m_port);
  auto* keyLabel = new QLabel(tr("&Key"), box);
  keyLabel->setBuddy(m_key);
  form->addRow(keyLabel, keyRow);
  form->addRow(m_autostart);
  auto* note =
      new QLabel(tr("Address, port and key take effect at the next start of the server."), box);
  note->setWordWrap(true);
  note->setForegroundRole(QPalette::PlaceholderText);
  form->addRow(note);

  connect(make, &QPushButton::clicked, this, [this] {
    m_key->setText(newKey());
    QApplication::clipboard()->setText(m_key->text());
    saveSettings();
  });
  connect(m_host, &QComboBox::currentTextChanged, this, &ServerPage::saveSettings);
  connect(m_port, &QSpinBox::valueChanged, this, &ServerPage::saveSettings);
  connect(m_key, &QLineEdit::editingFinished, this, &ServerPage::saveSettings);
  connect(m_autostart, &QCheckBox::toggled, this, &ServerPage::saveSettings);
  return box;
}

QWidget* ServerPage::buildSnippet() {
  auto* box = new QGroupBox(tr("Connect a client"), this);
  auto* column = new QVBoxLayout(box);
  auto* row = new QHBoxLayout;
  m_snippetKind = new QComboBox(box);
  m_snippetKind->addItems({tr("curl"), tr("Python (openai)"), tr("Continue (config.yaml)")});
  m_snippetKind->setAccessibleName(tr("Kind of client"));
  auto* copy = new QPushButton(tr("Copy"), box);
  row->addWidget(m_snippetKind);
  row->addStretch(1);
  row->addWidget(copy);
  column->addLayout(row);
  m_snippet = new QPlainTextEdit(box);
  m_snippet->setReadOnly(true);
  m_snippet->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  m_snippet->setAccessibleName(tr("Snippet to copy"));
  m_snippet->setMinimumHeight(120);
  column->addWidget(m_snippet, 1);
  connect(m_snippetKind, &QComboBox::currentIndexChanged, this, &ServerPage::updateSnippet);
  connect(copy, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(m_snippet->toPlainText()); });
  return box;
}

void ServerPage::saveSettings() {
  m_settings->server.host = m_host->currentText().trimmed().toStdString();
  m_settings->server.port = m_port->value();
  m_settings->server.api_key = m_key->text().toStdString();
  m_settings->server.autostart = m_autostart->isChecked();
  if (const Status saved = m_settings->save(); !saved.ok()) {
    showProblem(QString::fromStdString(saved.error().message), 0);
  }
  updateSnippet();
}

void ServerPage::startServer() {
  if (m_server || m_busy) return;
  const QString host = m_host->currentText().trimmed();
  if (!loopback(host) && m_key->text().isEmpty()) {
    showProblem(tr("Other machines could connect to %1, so a key is needed. Make one with New key, "
                   "then start again.")
                    .arg(host),
                0);
    return;
  }
  begin(m_port->value());
}

void ServerPage::startOn(int port) {
  m_port->setValue(port);
  startServer();
}

void ServerPage::begin(int port) {
  m_busy = true;
  m_problem->hide();
  refreshState();
  ServerOptions options;
  options.host = m_host->currentText().trimmed().toStdString();
  options.port = port;
  options.api_key = m_key->text().toStdString();
  const QPointer<ServerPage> self(this);
  QThreadPool::globalInstance()->start([self, options, host = m_client->host(), port] {
    auto result =
        std::make_shared<Result<std::unique_ptr<HttpServer>>>(HttpServer::start(options, host));
    QMetaObject::invokeMethod(
        qApp,
        [self, result, port] {
          if (self) self->started(result, port);
        },
        Qt::QueuedConnection);
  });
}

void ServerPage::started(std::shared_ptr<Result<std::unique_ptr<HttpServer>>> result, int port) {
  m_busy = false;
  if (!result->ok()) {
    const Error& error = result->error();
    const bool taken = error.code == ErrorCode::kAddressInUse;
    const QString text = QString::fromStdString(error.message);
    const int freePort = taken ? find_free_port(m_settings->server.host, port + 1) : 0;
    showProblem(text, freePort);
    emit startFailed(text, freePort);
    refreshState();
    return;
  }
  m_server = std::move(*result).value();
  const QPointer<ServerPage> self(this);
  m_logToken = m_server->observe_log([self](const RequestLogEntry& entry) {
    QMetaObject::invokeMethod(
        qApp,
        [self, entry] {
          if (self) self->m_log->append(entry);
        },
        Qt::QueuedConnection);
  });
  refreshState();
  emit addressChanged(apiBase());
}

void ServerPage::stopServer() {
  if (!m_server || m_busy) return;
  m_busy = true;
  m_logToken.reset();
  auto server = std::exchange(m_server, nullptr);
  refreshState();
  emit addressChanged({});
  const QPointer<ServerPage> self(this);
  QThreadPool::globalInstance()->start([self, server]() mutable {
    server->stop(kDrainSeconds);
    server.reset();
    QMetaObject::invokeMethod(
        qApp,
        [self] {
          if (!self) return;
          self->m_busy = false;
          self->refreshState();
        },
        Qt::QueuedConnection);
  });
}

void ServerPage::showProblem(const QString& text, int freePort) {
  m_problemText->setText(text);
  QPalette palette = m_problemText->palette();
  palette.setColor(QPalette::WindowText, Theme::current().danger);
  m_problemText->setPalette(palette);
  m_useFreePort->setVisible(freePort > 0);
  m_useFreePort->setProperty("port", freePort);
  m_useFreePort->setText(tr("Use port %1").arg(freePort));
  m_problem->show();
}

QString ServerPage::apiBase() const {
  if (m_server) return QString::fromStdString(m_server->address()) + QStringLiteral("/v1");
  return QStringLiteral("http://%1:%2/v1")
      .arg(m_host->currentText().trimmed())
      .arg(m_port->value());
}

void ServerPage::refreshState() {
  m_toggle->setText(m_server ? tr("Stop server") : tr("Start server"));
  m_toggle->setEnabled(!m_busy);
  m_copyAddress->setEnabled(m_server != nullptr);
  if (m_busy) {
    m_state->setText(m_server ? tr("Stopping …") : tr("One moment …"));
  } else if (m_server) {
    m_state->setText(tr("Serving on %1").arg(apiBase()));
  } else {
    m_state->setText(tr("The server is stopped."));
  }
  updateSnippet();
}

void ServerPage::updateSnippet() {
  const auto model = m_client->model();
  const QString name = model ? model->id : QStringLiteral("starter");
  const QString key = m_key->text().isEmpty() ? QString() : m_key->text();
  const QString base = apiBase();
  switch (m_snippetKind->currentIndex()) {
    case 0:
      m_snippet->setPlainText(
          QStringLiteral("curl %1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n%2"
                         "  -d '{\"model\": \"%3\", \"messages\": [{\"role\": \"user\", "
                         "\"content\": \"Hello\"}]}'\n")
              .arg(base,
                   key.isEmpty() ? QString()
                                 : QStringLiteral("  -H 'Authorization: Bearer %1' \\\n").arg(key),
                   name));
      break;
    case 1:
      m_snippet->setPlainText(
          QStringLiteral(
              "from openai import OpenAI\n\nclient = OpenAI(base_url=\"%1\", api_key=\"%2\")\n"
              "answer = client.chat.completions.create(\n    model=\"%3\",\n"
              "    messages=[{\"role\": \"user\", \"content\": \"Hello\"}])\n"
              "print(answer.choices[0].message.content)\n")
              .arg(base, key.isEmpty() ? QStringLiteral("none") : key, name));
      break;
    default:
      m_snippet->setPlainText(
          QStringLiteral("models:\n  - name: Quire\n    provider: openai\n    model: %3\n"
                         "    apiBase: %1\n    apiKey: %2\n    roles: [chat, edit]\n")
              .arg(base, key.isEmpty() ? QStringLiteral("none") : key, name));
  }
}

}  // namespace quire
