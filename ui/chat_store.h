#pragma once

#include <QObject>
#include <QThread>
#include <QVector>
#include <memory>

#include "ui/chat_types.h"

namespace quire {

class ChatDatabase;

// The chats on disk. Lives in the GUI thread; every call is queued to one worker thread with its
// own database connection, in order, and returns at once. Identities are made by the caller, so
// nothing waits for the disk.
//
// When the file cannot be opened or written (read-only, disk full) what is there is kept in memory
// from then on, and `notice` says so: chatting goes on, and the old file stays as it was.
class ChatStore : public QObject {
  Q_OBJECT
 public:
  // `path` is created with its folder when missing.
  explicit ChatStore(const QString& path, QObject* parent = nullptr);
  // Writes what is queued, then closes.
  ~ChatStore() override;

  static QString defaultPath();
  static QString newId();

  void requestList();                       // -> listed
  void requestChat(const QString& chatId);  // -> chatLoaded
  void search(const QString& text);         // -> found

  void createChat(const ChatSummary& chat, const ChatSettings& settings);
  void rename(const QString& chatId, const QString& title);
  void saveSettings(const QString& chatId, const ChatSettings& settings);
  // A deleted chat can be restored until it is purged; what was deleted in an earlier run is purged
  // at start. Purging overwrites the content.
  void remove(const QString& chatId);
  void restore(const QString& chatId);
  void purge(const QString& chatId);

  // Adds the message at the end, or overwrites the one with its id.
  void saveMessage(const QString& chatId, const Message& message);
  void removeMessages(const QStringList& messageIds);

  void waitForWrites();  // blocks until everything queued is committed; for shutdown and tests

 signals:
  void listed(const QVector<quire::ChatSummary>& chats);  // newest first
  void chatLoaded(const QString& chatId, const quire::Conversation& conversation);
  void found(const QString& text, const QStringList& chatIds);
  void notice(const QString& sentence);

 private:
  template <typename Work>
  void run(Work work);

  QThread m_thread;
  ChatDatabase* m_database;  // lives in m_thread
};

}  // namespace quire
