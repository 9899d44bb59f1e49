#include "ui/model_loader.h"

#include <QFileInfo>
#include <QPointer>
#include <QThreadPool>

namespace quire {
namespace {

const QString kStarter = QStringLiteral("starter");

QString text(const std::string& value) {
  return QString::fromStdString(value);
}

// Runs `work` on a worker thread and `done` with its result in the thread of `receiver`, unless
// that is gone by then.
template <typename Work, typename Done>
void inBackground(QObject* receiver, Work work, Done done) {
  QPointer<QObject> guard(receiver);
  QObject* context = new QObject;  // lives in the GUI thread, where the result is delivered
  QThreadPool::globalInstance()->start([guard, context, work, done] {
    auto result = work();
    QMetaObject::invokeMethod(context, [guard, context, done, result = std::move(result)] {
      if (guard) done(result);
      context->deleteLater();
    });
  });
}

}  // namespace

ModelLoader::ModelLoader(EngineClient* client, Settings* settings, QObject* parent)
    : QObject(parent), m_client(client), m_settings(settings) {
  connect(m_client, &EngineClient::statusChanged, this, &ModelLoader::onStatus);
}

void ModelLoader::loadAtStart(const QString& wanted) {
  const QString what = wanted.isEmpty() ? text(m_settings->model) : wanted;
  const QString marked = text(m_settings->load_marker);
  if (marked.isEmpty()) {
    resolveAndLoad(what, wanted.isEmpty());
    return;
  }
  mark({});
  BarMessage question;
  question.kind = BarKind::Warning;
  question.key = QStringLiteral("load-marker");
  question.text = tr("Quire ended unexpectedly while it was loading “%1” the last time, so it was "
                     "not loaded again.")
                      .arg(marked);
  question.actions = {{tr("Load it"), [this, marked] { open(marked); }},
                      {tr("Use the built-in model"), [this] { open(text(kBuiltinTiny)); }}};
  emit notice(question);
}

void ModelLoader::open(const QString& what) {
  m_remember = true;
  resolveAndLoad(what, false);
}

void ModelLoader::cancel() {
  m_remember = false;
  m_client->cancelLoad();
}

void ModelLoader::resolveAndLoad(const QString& what, bool atStart) {
  inBackground(
      this,
      [name = what.toStdString(), folders = m_settings->model_folders] {
        return resolve_model(name, folders);
      },
      [this, what, atStart](const Result<ResolvedModel>& resolved) {
        if (resolved.ok()) {
          mark(what);
          m_client->load(text(resolved->path), text(resolved->id), m_settings->load);
          return;
        }
        m_remember = false;
        if (atStart && what == kStarter) return fallBackToTiny();
        BarMessage message;
        message.kind = BarKind::Error;
        message.key = QStringLiteral("load");
        message.text = text(resolved.error().message);
        emit notice(message);
        if (atStart) resolveAndLoad(text(kBuiltinTiny), true);
      });
}

void ModelLoader::fallBackToTiny() {
  BarMessage message;
  message.kind = BarKind::Warning;
  message.key = QStringLiteral("starter");
  message.text =
      tr("The starter model is not on this machine yet, so a tiny built-in model was "
         "loaded. It shows how the engine works, but what it writes makes no sense. "
         "“packaging/run” fetches the starter model; or open a model file of your own.");
  emit notice(message);
  resolveAndLoad(text(kBuiltinTiny), true);
}

void ModelLoader::onStatus(const HostStatus& status) {
  if (status.state == HostState::kLoading || status.state == HostState::kDraining) m_begun = true;
  const bool over = status.state == HostState::kReady || status.state == HostState::kFailed ||
                    status.state == HostState::kEmpty;
  if (!over || !m_begun || m_loading.isEmpty()) return;
  const QString loaded = std::exchange(m_loading, {});
  if (status.state == HostState::kReady && std::exchange(m_remember, false)) {
    m_settings->model = loaded.toStdString();
  }
  m_settings->load_marker.clear();
  saveSettings();
  if (status.error.empty()) return;
  BarMessage message;
  message.kind = BarKind::Error;
  message.key = QStringLiteral("load");
  message.text = text(status.error);
  message.actions = {{tr("Try again"), [this, loaded] { open(loaded); }}};
  emit notice(message);
}

void ModelLoader::mark(const QString& what) {
  m_loading = what;
  m_begun = false;
  m_settings->load_marker = what.toStdString();
  saveSettings();
}

void ModelLoader::saveSettings() {
  const Status saved = m_settings->save();
  if (saved.ok()) return;
  BarMessage message;
  message.kind = BarKind::Warning;
  message.key = QStringLiteral("settings");
  message.text = text(saved.error().message);
  emit notice(message);
}

void ModelLoader::refreshLibrary() {
  inBackground(
      this,
      [folders = m_settings->model_folders] {
        return std::pair(list_models(folders), resolve_model("starter", folders).ok());
      },
      [this](const std::pair<std::vector<LibraryEntry>, bool>& found) {
        m_library = found.first;
        m_starterInstalled = found.second;
        emit libraryChanged();
      });
}

void ModelLoader::addFolder(const QString& folder) {
  const std::string path = QFileInfo(folder).absoluteFilePath().toStdString();
  for (const std::string& known : m_settings->model_folders) {
    if (known == path) return refreshLibrary();
  }
  m_settings->model_folders.push_back(path);
  saveSettings();
  refreshLibrary();
}

}  // namespace quire
