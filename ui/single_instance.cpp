#include "ui/single_instance.h"

#include <QCryptographicHash>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLocalServer>
#include <QLocalSocket>

#include "engine/paths.h"

namespace quire {
namespace {

constexpr int kTimeoutMs = 3000;
constexpr qint64 kMaxMessageBytes = 1 << 20;
const char kTaken[] = "ok\n";

QString socketName(const QString& dataDir) {
  const QByteArray path = QFileInfo(dataDir).canonicalFilePath().toUtf8();
  const QByteArray digest = QCryptographicHash::hash(path, QCryptographicHash::Sha256).toHex();
  const QString folder = QString::fromStdString(runtime_dir());
  ensure_dir(runtime_dir());
  return QStringLiteral("%1/window-%2").arg(folder, QString::fromLatin1(digest.left(16)));
}

}  // namespace

SingleInstance::SingleInstance(const QString& dataDir, QObject* parent)
    : QObject(parent),
      m_socketName(socketName(dataDir)),
      m_lock(dataDir + QStringLiteral("/window.lock")),
      m_server(new QLocalServer(this)) {
  m_lock.setStaleLockTime(0);  // a lock is stale only when its process is gone
  m_server->setSocketOptions(QLocalServer::UserAccessOption);
  connect(m_server, &QLocalServer::newConnection, this, &SingleInstance::receive);
}

SingleInstance::~SingleInstance() {
  m_server->close();
}

bool SingleInstance::acquire() {
  if (!m_lock.tryLock(0)) return false;
  QLocalServer::removeServer(m_socketName);  // left behind by a crash; the lock says it is ours
  if (!m_server->listen(m_socketName)) {
    qWarning("Cannot listen for further starts: %s", qPrintable(m_server->errorString()));
  }
  return true;
}

bool SingleInstance::handOver(const QStringList& paths) {
  QLocalSocket socket;
  socket.connectToServer(m_socketName);
  if (!socket.waitForConnected(kTimeoutMs)) return false;
  socket.write(QJsonDocument(QJsonArray::fromStringList(paths)).toJson(QJsonDocument::Compact));
  socket.write("\n");
  while (socket.bytesToWrite() > 0) {
    if (!socket.waitForBytesWritten(kTimeoutMs)) return false;
  }
  return socket.waitForReadyRead(kTimeoutMs);
}

void SingleInstance::receive() {
  while (QLocalSocket* socket = m_server->nextPendingConnection()) {
    connect(socket, &QLocalSocket::disconnected, socket, &QObject::deleteLater);
    connect(socket, &QLocalSocket::readyRead, this, [this, socket] {
      if (!socket->canReadLine()) {
        if (socket->bytesAvailable() > kMaxMessageBytes) socket->abort();
        return;
      }
      const QJsonArray array = QJsonDocument::fromJson(socket->readLine(kMaxMessageBytes)).array();
      QStringList paths;
      for (const auto& value : array) paths << value.toString();
      socket->write(kTaken);
      socket->flush();
      emit activated(paths);
    });
  }
}

}  // namespace quire
