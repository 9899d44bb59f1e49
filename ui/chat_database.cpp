#include "ui/chat_database.h"

#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QSqlError>
#include <QUuid>
#include <QVariant>

#include "engine/paths.h"
#include "ui/chat_serial.h"

namespace quire {
namespace {

// Statement i brings a database from version i to i + 1.
const QStringList kMigrations[] = {
    {QStringLiteral("CREATE TABLE chats (id TEXT PRIMARY KEY, title TEXT NOT NULL, created INTEGER "
                    "NOT NULL, updated INTEGER NOT NULL, settings TEXT NOT NULL DEFAULT '{}', "
                    "deleted INTEGER NOT NULL DEFAULT 0)"),
     QStringLiteral(
         "CREATE TABLE messages (id TEXT PRIMARY KEY, chat TEXT NOT NULL REFERENCES "
         "chats(id) ON DELETE CASCADE, position INTEGER NOT NULL, role INTEGER NOT NULL, "
         "content TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL "
         "DEFAULT '', stats TEXT NOT NULL DEFAULT '{}', created INTEGER NOT NULL)"),
     QStringLiteral("CREATE INDEX messages_by_chat ON messages(chat, position)"),
     QStringLiteral("CREATE INDEX chats_by_time ON chats(deleted, updated)")}};
constexpr int kVersion = static_cast<int>(std::size(kMigrations));

const QStringList kPragmas = {
    QStringLiteral("PRAGMA foreign_keys = ON"), QStringLiteral("PRAGMA secure_delete = ON"),
    QStringLiteral("PRAGMA synchronous = FULL"), QStringLiteral("PRAGMA busy_timeout = 2000")};

qint64 milliseconds(const QDateTime& time) {
  return (time.isValid() ? time : QDateTime::currentDateTimeUtc()).toMSecsSinceEpoch();
}

// A null string is stored as empty, not as NULL.
QString stored(const QString& value) {
  return value.isNull() ? QStringLiteral("") : value;
}

// SQLite's result codes, as the driver reports them.
bool isDamage(const QSqlError& error) {
  const QString code = error.nativeErrorCode();
  return code == QLatin1String("11") || code == QLatin1String("26");  // CORRUPT, NOTADB
}

MessageState storedState(int value) {
  const auto state = static_cast<MessageState>(value);
  if (value < 0 || value > static_cast<int>(MessageState::Interrupted)) {
    return MessageState::Complete;
  }
  // Nobody is writing it any more: the program that did is gone.
  return state == MessageState::Streaming ? MessageState::Interrupted : state;
}

}  // namespace

ChatDatabase::ChatDatabase(const QString& path)
    : m_path(path), m_connection(QUuid::createUuid().toString()) {}

ChatDatabase::~ChatDatabase() {
  closeConnection();
}

void ChatDatabase::closeConnection() {
  if (!m_db.isValid()) return;
  m_db.close();
  m_db = QSqlDatabase();
  QSqlDatabase::removeDatabase(m_connection);
}

void ChatDatabase::open() {
  ensure_dir(QFileInfo(m_path).path().toStdString());
  Opened opened = openFile();
  if (opened == Opened::Damaged && moveAside()) opened = openFile();
  if (opened == Opened::Ok) return tidyUp();
  openMemory(false);
  if (opened == Opened::Newer) {
    emit notice(
        tr("Your chats were written by a newer version of Quire, so they are left as they "
           "are. Chats of this session are not saved."));
  } else {
    emit notice(tr("The chats in %1 cannot be opened or written. Chats of this session are kept in "
                   "memory only and are lost when Quire ends.")
                    .arg(QDir::toNativeSeparators(m_path)));
  }
}

ChatDatabase::Opened ChatDatabase::openFile() {
  closeConnection();
  m_db = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), m_connection);
  m_db.setDatabaseName(m_path);
  const bool existed = QFileInfo::exists(m_path);
  if (!m_db.open()) return Opened::Unusable;
  if (!existed) QFile::setPermissions(m_path, QFile::ReadOwner | QFile::WriteOwner);
  QSqlQuery query(m_db);
  if (!query.exec(QStringLiteral("PRAGMA journal_mode = WAL"))) {
    return isDamage(query.lastError()) ? Opened::Damaged : Opened::Unusable;
  }
  query.finish();
  for (const QString& pragma : kPragmas) query.exec(pragma);
  query.finish();
  return migrate();
}

ChatDatabase::Opened ChatDatabase::migrate() {
  QSqlQuery query(m_db);
  const auto failed = [&] {
    return isDamage(query.lastError()) ? Opened::Damaged : Opened::Unusable;
  };
  if (!query.exec(QStringLiteral("PRAGMA user_version")) || !query.next()) return failed();
  const int version = query.value(0).toInt();
  query.finish();
  if (version > kVersion) return Opened::Newer;
  if (version > 0 && version < kVersion) {
    query.prepare(QStringLiteral("VACUUM INTO ?"));
    query.addBindValue(QStringLiteral("%1.version-%2").arg(m_path).arg(version));
    query.exec();
  }
  for (int from = version; from < kVersion; ++from) {
    if (!m_db.transaction()) return Opened::Unusable;
    for (const QString& statement : kMigrations[from]) {
      if (query.exec(statement)) continue;
      const Opened result = failed();
      m_db.rollback();
      return result;
    }
    query.exec(QStringLiteral("PRAGMA user_version = %1").arg(from + 1));
    if (!m_db.commit()) return Opened::Unusable;
  }
  // Reads every page of the list's table and index, so that damage shows now. Messages are checked
  // when their chat is read.
  if (!query.exec(QStringLiteral("SELECT count(*), max(length(title)) FROM chats")))
    return failed();
  while (query.next()) {
  }
  if (query.lastError().isValid()) return failed();
  // A file that cannot be written shows here rather than at the first message.
  query.finish();
  if (!query.exec(QStringLiteral("UPDATE chats SET deleted = deleted WHERE id = ''"))) {
    return failed();
  }
  return Opened::Ok;
}

bool ChatDatabase::moveAside() {
  closeConnection();
  const QString stamp = QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss"));
  const QString target = QStringLiteral("%1.damaged-%2").arg(m_path, stamp);
  if (!QFile::rename(m_path, target)) return false;
  for (const QString& suffix : {QStringLiteral("-wal"), QStringLiteral("-shm")}) {
    if (QFile::exists(m_path + suffix)) QFile::rename(m_path + suffix, target + suffix);
  }
  emit notice(tr("The file with your chats is damaged. It was kept as %1, and a new one was begun.")
                  .arg(QDir::toNativeSeparators(target)));
  return true;
}

// Goes on in memory, with what the file held when it can still be read.
void ChatDatabase::openMemory(bool copyFile) {
  closeConnection();
  m_inMemory = true;
  m_db = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), m_connection);
  m_db.setDatabaseName(QStringLiteral(":memory:"));
  m_db.open();
  QSqlQuery query(m_db);
  query.exec(QStringLiteral("PRAGMA foreign_keys = ON"));
  for (const QString& statement : kMigrations[0]) query.exec(statement);
  if (!copyFile) return;
  query.prepare(QStringLiteral("ATTACH DATABASE ? AS disk"));
  query.addBindValue(m_path);
  if (!query.exec()) return;
  query.exec(QStringLiteral("INSERT INTO main.chats SELECT * FROM disk.chats"));
  query.exec(QStringLiteral("INSERT INTO main.messages SELECT * FROM disk.messages"));
  query.finish();
  query.exec(QStringLiteral("DETACH DATABASE disk"));
}

void ChatDatabase::tidyUp() {
  QString error;
  execute(QStringLiteral("DELETE FROM chats WHERE deleted <> 0"), {}, error);
}

bool ChatDatabase::execute(const QString& sql, const QVariantList& values, QString& error) {
  QSqlQuery query(m_db);
  if (query.prepare(sql)) {
    for (const QVariant& value : values) query.addBindValue(value);
    if (query.exec()) return true;
  }
  error = query.lastError().text();
  return false;
}

bool ChatDatabase::write(const QString& sql, const QVariantList& values) {
  QString error;
  if (execute(sql, values, error)) return true;
  if (m_inMemory) {
    emit notice(tr("A change to your chats could not be kept: %1.").arg(error));
    return false;
  }
  openMemory(true);
  emit notice(tr("Your chats can no longer be saved (%1). What was saved is safe; what follows is "
                 "kept in memory only until Quire ends.")
                  .arg(error));
  return execute(sql, values, error);
}

QSqlQuery ChatDatabase::read(const QString& sql, const QVariantList& values) {
  QSqlQuery query(m_db);
  query.setForwardOnly(true);
  if (query.prepare(sql)) {
    for (const QVariant& value : values) query.addBindValue(value);
    query.exec();
  }
  if (query.lastError().isValid() && !std::exchange(m_readProblemSaid, true)) {
    emit notice(tr("Some of your chats cannot be read: %1.").arg(query.lastError().text()));
  }
  return query;
}

QVector<ChatSummary> ChatDatabase::list() {
  QVector<ChatSummary> chats;
  QSqlQuery query = read(QStringLiteral("SELECT id, title, updated FROM chats WHERE deleted = 0 "
                                        "ORDER BY updated DESC, rowid DESC"),
                         {});
  while (query.next()) {
    chats.push_back({query.value(0).toString(), query.value(1).toString(),
                     QDateTime::fromMSecsSinceEpoch(query.value(2).toLongLong())});
  }
  return chats;
}

Conversation ChatDatabase::load(const QString& chatId) {
  Conversation conversation;
  QSqlQuery chat = read(QStringLiteral("SELECT settings FROM chats WHERE id = ?"), {chatId});
  if (chat.next()) conversation.settings = settingsFromJson(chat.value(0).toString());
  QSqlQuery query =
      read(QStringLiteral("SELECT id, role, content, state, error, stats, created FROM messages "
                          "WHERE chat = ? ORDER BY position, rowid"),
           {chatId});
  while (query.next()) {
    Message message;
    message.id = query.value(0).toString();
    message.role =
        query.value(1).toInt() == static_cast<int>(Role::User) ? Role::User : Role::Assistant;
    message.content = query.value(2).toString();
    message.state = storedState(query.value(3).toInt());
    message.error = query.value(4).toString();
    message.stats = statsFromJson(query.value(5).toString());
    message.created = QDateTime::fromMSecsSinceEpoch(query.value(6).toLongLong());
    conversation.messages.push_back(message);
  }
  return conversation;
}

QStringList ChatDatabase::search(const QString& text) {
  QString pattern = text;
  for (const QChar special : {QLatin1Char('\\'), QLatin1Char('%'), QLatin1Char('_')}) {
    pattern.replace(special, QStringLiteral("\\") + special);
  }
  pattern = QLatin1Char('%') + pattern + QLatin1Char('%');
  QStringList ids;
  QSqlQuery query =
      read(QStringLiteral("SELECT id FROM chats WHERE deleted = 0 AND (title LIKE ? ESCAPE '\\' OR "
                          "id IN (SELECT chat FROM messages WHERE content LIKE ? ESCAPE '\\')) "
                          "ORDER BY updated DESC"),
           {pattern, pattern});
  while (query.next()) ids << query.value(0).toString();
  return ids;
}

void ChatDatabase::createChat(const ChatSummary& chat, const ChatSettings& settings) {
  const qint64 time = milliseconds(chat.updated);
  write(QStringLiteral("INSERT INTO chats (id, title, created, updated, settings) VALUES "
                       "(?, ?, ?, ?, ?)"),
        {chat.id, stored(chat.title), time, time, toJson(settings)});
}

void ChatDatabase::rename(const QString& chatId, const QString& title) {
  write(QStringLiteral("UPDATE chats SET title = ? WHERE id = ?"), {stored(title), chatId});
}

void ChatDatabase::saveSettings(const QString& chatId, const ChatSettings& settings) {
  write(QStringLiteral("UPDATE chats SET settings = ? WHERE id = ?"), {toJson(settings), chatId});
}

void ChatDatabase::setDeleted(const QString& chatId, bool deleted) {
  write(QStringLiteral("UPDATE chats SET deleted = ? WHERE id = ?"), {deleted ? 1 : 0, chatId});
}

void ChatDatabase::purge(const QString& chatId) {
  if (!write(QStringLiteral("DELETE FROM chats WHERE id = ? AND deleted <> 0"), {chatId})) return;
  QSqlQuery query(m_db);
  query.exec(QStringLiteral("PRAGMA wal_checkpoint(TRUNCATE)"));  // else the text stays in the log
}

void ChatDatabase::saveMessage(const QString& chatId, const Message& message) {
  const bool saved = write(
      QStringLiteral(
          "INSERT INTO messages (id, chat, position, role, content, state, error, stats, created) "
          "VALUES (?, ?, (SELECT coalesce(max(position), -1) + 1 FROM messages WHERE chat = ?), "
          "?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET content = excluded.content, "
          "state = excluded.state, error = excluded.error, stats = excluded.stats"),
      {message.id, chatId, chatId, static_cast<int>(message.role), stored(message.content),
       static_cast<int>(message.state), stored(message.error), toJson(message.stats),
       milliseconds(message.created)});
  if (saved && message.state != MessageState::Streaming) {
    write(QStringLiteral("UPDATE chats SET updated = ? WHERE id = ?"),
          {QDateTime::currentMSecsSinceEpoch(), chatId});
  }
}

void ChatDatabase::removeMessages(const QStringList& messageIds) {
  if (messageIds.isEmpty() || !m_db.transaction()) return;
  for (const QString& id : messageIds) {
    write(QStringLiteral("DELETE FROM messages WHERE id = ?"), {id});
  }
  m_db.commit();
}

void ChatDatabase::limitPages(int pages) {
  QSqlQuery query(m_db);
  query.exec(QStringLiteral("PRAGMA max_page_count = %1").arg(pages));
}

}  // namespace quire
