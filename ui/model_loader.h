#pragma once

#include <QObject>
#include <QString>
#include <vector>

#include "engine/library.h"
#include "engine/settings.h"
#include "ui/engine_client.h"
#include "ui/message_bar.h"

namespace quire {

// Decides what to load, remembers it in the settings, and keeps a marker there while a load runs,
// so that a model that brought the program down is not loaded again unasked. GUI thread; files are
// looked at on worker threads.
class ModelLoader : public QObject {
  Q_OBJECT
 public:
  // Both must outlive the loader.
  ModelLoader(EngineClient* client, Settings* settings, QObject* parent = nullptr);

  // Loads `wanted`, or what the settings name when empty. A missing starter falls back to
  // builtin:tiny and says so; a marker left by an earlier start asks first.
  void loadAtStart(const QString& wanted = {});
  // Loads a path, "starter", "builtin:tiny" or a library name, and makes it the one loaded at start
  // once it is ready.
  void open(const QString& what);
  void cancel();

  void refreshLibrary();
  const std::vector<LibraryEntry>& library() const { return m_library; }
  // Adds a folder to the library (read in place).
  void addFolder(const QString& folder);
  bool starterInstalled() const { return m_starterInstalled; }

  Settings& settings() { return *m_settings; }
  // Writes the settings; a failure becomes a notice.
  void saveSettings();

 signals:
  void notice(const quire::BarMessage& message);
  void libraryChanged();

 private:
  void resolveAndLoad(const QString& what, bool atStart);
  void fallBackToTiny();
  void onStatus(const HostStatus& status);
  void mark(const QString& what);

  EngineClient* m_client;
  Settings* m_settings;
  std::vector<LibraryEntry> m_library;
  bool m_starterInstalled = false;
  QString m_loading;        // what the load in progress was asked for; empty when none is ours
  bool m_begun = false;     // the host has taken that load up
  bool m_remember = false;  // make it the model loaded at start
};

}  // namespace quire
