#include "ui/chat_store.h"

#include <QMetaObject>
#include <QUuid>

#include "engine/paths.h"
#include "ui/chat_database.h"

namespace quire {

ChatStore::ChatStore(const QString& path, QObject* parent)
    : QObject(parent), m_database(new ChatDatabase(path)) {
  m_thread.setObjectName(QStringLiteral("chat store"));
  m_database->moveToThread(&m_thread);
  connect(m_database, &ChatDatabase::notice, this, &ChatStore::notice);
  connect(&m_thread, &QThread::finished, m_database, &QObject::deleteLater);
  m_thread.start();
  run([](ChatDatabase& database) { database.open(); });
}

ChatStore::~ChatStore() {
  waitForWrites();
  m_thread.quit();
  m_thread.wait();
}

QString ChatStore::defaultPath() {
  return QString::fromStdString(data_dir() + "/chats.sqlite");
}

QString ChatStore::newId() {
  return QUuid::createUuid().toString(QUuid::WithoutBraces);
}

template <typename Work>
void ChatStore::run(Work work) {
  QMetaObject::invokeMethod(
      m_database, [database = m_database, work] { work(*database); }, Qt::QueuedConnection);
}

void ChatStore::waitForWrites() {
  QMetaObject::invokeMethod(
      m_database, [] {}, Qt::BlockingQueuedConnection);
}

void ChatStore::requestList() {
  run([this](ChatDatabase& database) { emit listed(database.list()); });
}

void ChatStore::requestChat(const QString& chatId) {
  run([this, chatId](ChatDatabase& database) { emit chatLoaded(chatId, database.load(chatId)); });
}

void ChatStore::search(const QString& text) {
  run([this, text](ChatDatabase& database) { emit found(text, database.search(text)); });
}

void ChatStore::createChat(const ChatSummary& chat, const ChatSettings& settings) {
  run([chat, settings](ChatDatabase& database) { database.createChat(chat, settings); });
}

void ChatStore::rename(const QString& chatId, const QString& title) {
  run([chatId, title](ChatDatabase& database) { database.rename(chatId, title); });
}

void ChatStore::saveSettings(const QString& chatId, const ChatSettings& settings) {
  run([chatId, settings](ChatDatabase& database) { database.saveSettings(chatId, settings); });
}

void ChatStore::remove(const QString& chatId) {
  run([chatId](ChatDatabase& database) { database.setDeleted(chatId, true); });
}

void ChatStore::restore(const QString& chatId) {
  run([chatId](ChatDatabase& database) { database.setDeleted(chatId, false); });
}

void ChatStore::purge(const QString& chatId) {
  run([chatId](ChatDatabase& database) { database.purge(chatId); });
}

void ChatStore::saveMessage(const QString& chatId, const Message& message) {
  run([chatId, message](ChatDatabase& database) { database.saveMessage(chatId, message); });
}

void ChatStore::removeMessages(const QStringList& messageIds) {
  run([messageIds](ChatDatabase& database) { database.removeMessages(messageIds); });
}

}  // namespace quire
