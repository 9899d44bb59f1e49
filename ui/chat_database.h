#pragma once

#include <QObject>
#include <QSqlDatabase>
#include <QSqlQuery>
#include <QStringList>
#include <QVariantList>
#include <QVector>

#include "ui/chat_types.h"

namespace quire {

// The SQLite side of ChatStore: one connection, used in the thread it was opened in. WAL with full
// synchronisation of each commit, secure deletion, one row per message. Readers tolerate missing
// and odd fields. Errors become notices, never exceptions or lost chats.
class ChatDatabase : public QObject {
  Q_OBJECT
 public:
  explicit ChatDatabase(const QString& path);
  ~ChatDatabase() override;

  // A file that is no database, or a damaged one, is moved aside. A file of a newer version is left
  // alone and memory used instead.
  void open();
  bool inMemory() const { return m_inMemory; }

  QVector<ChatSummary> list();
  Conversation load(const QString& chatId);
  QStringList search(const QString& text);  // chats whose title or messages contain it

  void createChat(const ChatSummary& chat, const ChatSettings& settings);
  void rename(const QString& chatId, const QString& title);
  void saveSettings(const QString& chatId, const ChatSettings& settings);
  void setDeleted(const QString& chatId, bool deleted);
  void purge(const QString& chatId);
  void saveMessage(const QString& chatId, const Message& message);
  void removeMessages(const QStringList& messageIds);

  // For tests: the file may not grow past this many pages, as on a full disk.
  void limitPages(int pages);

 signals:
  void notice(const QString& sentence);

 private:
  enum class Opened { Ok, Damaged, Newer, Unusable };

  Opened openFile();
  Opened migrate();
  bool moveAside();
  void openMemory(bool copyFile);
  void closeConnection();
  void tidyUp();
  bool write(const QString& sql, const QVariantList& values);
  bool execute(const QString& sql, const QVariantList& values, QString& error);
  QSqlQuery read(const QString& sql, const QVariantList& values);

  QString m_path;
  QString m_connection;
  QSqlDatabase m_db;
  bool m_inMemory = false;
  bool m_readProblemSaid = false;
};

}  // namespace quire
