#pragma once

#include <QLockFile>
#include <QObject>
#include <QStringList>

class QLocalServer;

namespace quire {

// One window per data folder. The first keeps a lock and listens on a local socket; a second one
// hands its arguments over and should exit. Two windows on one folder would write the same chats
// and fight for the port.
class SingleInstance : public QObject {
  Q_OBJECT
 public:
  // `dataDir` must exist.
  explicit SingleInstance(const QString& dataDir, QObject* parent = nullptr);
  ~SingleInstance() override;

  // True if this is the first one; it listens from now on.
  bool acquire();
  // Sends `paths` (files to open; may be empty) to the first one and waits until it took them.
  bool handOver(const QStringList& paths);

 signals:
  void activated(const QStringList& paths);  // another start asked for attention

 private:
  void receive();

  QString m_socketName;
  QLockFile m_lock;
  QLocalServer* m_server;
};

}  // namespace quire
