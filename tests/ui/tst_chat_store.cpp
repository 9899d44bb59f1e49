#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QProcess>
#include <QSignalSpy>
#include <QSqlDatabase>
#include <QSqlQuery>
#include <QTemporaryDir>
#include <csignal>

#include "tests/support/test_main.h"
#include "ui/chat_database.h"
#include "ui/chat_serial.h"
#include "ui/chat_store.h"

using namespace quire;

namespace {

Message message(const QString& id, Role role, const QString& content,
                MessageState state = MessageState::Complete) {
  Message result;
  result.id = id;
  result.role = role;
  result.content = content;
  result.state = state;
  result.created = QDateTime::currentDateTimeUtc();
  return result;
}

const QString kChat = QStringLiteral("chat");

}  // namespace

class TestChatStore : public QObject {
  Q_OBJECT
 private slots:
  void init() { m_dir = std::make_unique<QTemporaryDir>(); }

  void everythingComesBack();
  void streamingMessageIsOverwrittenInPlace();
  void unfinishedAnswerIsMarkedInterrupted();
  void deletedChatCanBeRestored();
  void deletedChatIsGoneAfterTheNextStart();
  void purgedTextIsNotInTheFile();
  void searchFindsTitlesAndTexts();
  void damagedFileIsMovedAside_data();
  void damagedFileIsMovedAside();
  void newerFileIsLeftAlone();
  void fullDiskKeepsOldChatsAndGoesOnInMemory();
  void unwritableFolderGoesOnInMemory();
  void oddFieldsDoNotHideAChat();
  void settingsOutOfRangeCountAsMissing();
  void killedProcessLosesNothingCommitted();

 private:
  QString path() const { return m_dir->filePath(QStringLiteral("chats.sqlite")); }
  void fillOne(ChatDatabase& database) {
    database.createChat({kChat, QStringLiteral("Title"), QDateTime()}, {});
    database.saveMessage(kChat, message(QStringLiteral("m1"), Role::User, QStringLiteral("Hi")));
  }

  std::unique_ptr<QTemporaryDir> m_dir;
};

void TestChatStore::everythingComesBack() {
  ChatSettings settings;
  settings.systemPrompt = QStringLiteral("Be brief. \U0001F642");
  settings.sampling.temperature = 0.25f;
  settings.sampling.top_k = 40;
  settings.sampling.seed = 0xffff'ffff'ffff'fff0ull;
  Message reply = message(QStringLiteral("m2"), Role::Assistant, QStringLiteral("<b> & \0 é"));
  reply.stats.outputTokens = 12;
  reply.stats.cachedTokens = 3;
  reply.stats.firstTokenSeconds = 0.5;
  reply.stats.stopReason = QStringLiteral("stop");
  reply.state = MessageState::Failed;
  reply.error = QStringLiteral("A sentence.");
  {
    ChatStore store(path());
    store.createChat({kChat, QStringLiteral("Title"), QDateTime()}, settings);
    store.saveMessage(kChat, message(QStringLiteral("m1"), Role::User, QStringLiteral("Hi")));
    store.saveMessage(kChat, reply);
  }
  ChatStore store(path());
  QSignalSpy listed(&store, &ChatStore::listed), loaded(&store, &ChatStore::chatLoaded);
  store.requestList();
  store.requestChat(kChat);
  QTRY_COMPARE(loaded.size(), 1);
  const auto chats = listed[0][0].value<QVector<ChatSummary>>();
  QCOMPARE(chats.size(), 1);
  QCOMPARE(chats[0].title, QStringLiteral("Title"));
  const auto chat = loaded[0][1].value<Conversation>();
  QCOMPARE(chat.settings.systemPrompt, settings.systemPrompt);
  QCOMPARE(chat.settings.sampling.temperature, 0.25f);
  QCOMPARE(chat.settings.sampling.top_k, 40);
  QCOMPARE(*chat.settings.sampling.seed, 0xffff'ffff'ffff'fff0ull);
  QCOMPARE(chat.messages.size(), 2);
  QCOMPARE(chat.messages[0].content, QStringLiteral("Hi"));
  QCOMPARE(chat.messages[1].content, reply.content);
  QCOMPARE(chat.messages[1].error, reply.error);
  QCOMPARE(chat.messages[1].state, MessageState::Failed);
  QCOMPARE(chat.messages[1].stats.outputTokens, 12);
  QCOMPARE(chat.messages[1].stats.stopReason, QStringLiteral("stop"));
}

void TestChatStore::streamingMessageIsOverwrittenInPlace() {
  ChatDatabase database(path());
  database.open();
  fillOne(database);
  for (const QString& text : {QStringLiteral("a"), QStringLiteral("ab")}) {
    database.saveMessage(
        kChat, message(QStringLiteral("m2"), Role::Assistant, text, MessageState::Streaming));
  }
  const Conversation chat = database.load(kChat);
  QCOMPARE(chat.messages.size(), 2);
  QCOMPARE(chat.messages[1].content, QStringLiteral("ab"));
}

void TestChatStore::unfinishedAnswerIsMarkedInterrupted() {
  {
    ChatDatabase database(path());
    database.open();
    fillOne(database);
    database.saveMessage(kChat, message(QStringLiteral("m2"), Role::Assistant,
                                        QStringLiteral("half"), MessageState::Streaming));
  }
  ChatDatabase database(path());
  database.open();
  QCOMPARE(database.load(kChat).messages[1].state, MessageState::Interrupted);
}

void TestChatStore::deletedChatCanBeRestored() {
  ChatDatabase database(path());
  database.open();
  fillOne(database);
  database.setDeleted(kChat, true);
  QCOMPARE(database.list().size(), 0);
  database.setDeleted(kChat, false);
  QCOMPARE(database.list().size(), 1);
  QCOMPARE(database.load(kChat).messages.size(), 1);
}

void TestChatStore::deletedChatIsGoneAfterTheNextStart() {
  for (int start = 0; start < 2; ++start) {
    ChatDatabase database(path());
    database.open();
    if (start == 0) fillOne(database);
    QCOMPARE(database.load(kChat).messages.size(), start == 0 ? 1 : 0);
    database.setDeleted(kChat, true);
  }
}

void TestChatStore::purgedTextIsNotInTheFile() {
  const QByteArray secret = "an unusual phrase nobody else writes";
  ChatDatabase database(path());
  database.open();
  fillOne(database);
  database.saveMessage(kChat,
                       message(QStringLiteral("m2"), Role::User, QString::fromLatin1(secret)));
  database.setDeleted(kChat, true);
  database.purge(kChat);
  for (const QString& suffix : {QString(), QStringLiteral("-wal")}) {
    QFile file(path() + suffix);
    if (file.open(QIODevice::ReadOnly)) QVERIFY(!file.readAll().contains(secret));
  }
}

void TestChatStore::searchFindsTitlesAndTexts() {
  ChatDatabase database(path());
  database.open();
  fillOne(database);
  database.createChat({QStringLiteral("other"), QStringLiteral("100% sure"), QDateTime()}, {});
  database.saveMessage(QStringLiteral("other"),
                       message(QStringLiteral("o1"), Role::User, QStringLiteral("needle_here")));
  QCOMPARE(database.search(QStringLiteral("NEEDLE")), QStringList{QStringLiteral("other")});
  QCOMPARE(database.search(QStringLiteral("0% s")), QStringList{QStringLiteral("other")});
  QCOMPARE(database.search(QStringLiteral("needle%here")), QStringList());
  QCOMPARE(database.search(QStringLiteral("Titl")), QStringList{kChat});
}

void TestChatStore::damagedFileIsMovedAside_data() {
  QTest::addColumn<QByteArray>("content");
  QTest::newRow("text") << QByteArray("this is not a database, it is a letter to a friend");
  QTest::newRow("zeros") << QByteArray(8192, '\0').replace(0, 1, "x");
  QTest::newRow("header only") << QByteArray("SQLite format 3\0", 16) + QByteArray(4080, '\xff');
}

void TestChatStore::damagedFileIsMovedAside() {
  QFETCH(QByteArray, content);
  QFile file(path());
  QVERIFY(file.open(QIODevice::WriteOnly));
  file.write(content);
  file.close();
  ChatDatabase database(path());
  QSignalSpy notices(&database, &ChatDatabase::notice);
  database.open();
  QCOMPARE(notices.size(), 1);
  QVERIFY(!database.inMemory());
  fillOne(database);
  QCOMPARE(database.list().size(), 1);
  const QStringList kept =
      QDir(m_dir->path()).entryList({QStringLiteral("chats.sqlite.damaged-*")}, QDir::Files);
  QCOMPARE(kept.size(), 1);
  QFile aside(m_dir->filePath(kept.first()));
  QVERIFY(aside.open(QIODevice::ReadOnly));
  QCOMPARE(aside.readAll(), content);
}

void TestChatStore::newerFileIsLeftAlone() {
  {
    ChatDatabase database(path());
    database.open();
    fillOne(database);
  }
  {
    QSqlDatabase db = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), QStringLiteral("newer"));
    db.setDatabaseName(path());
    QVERIFY(db.open());
    QSqlQuery(db).exec(QStringLiteral("PRAGMA user_version = 999"));
  }
  QSqlDatabase::removeDatabase(QStringLiteral("newer"));
  ChatDatabase database(path());
  QSignalSpy notices(&database, &ChatDatabase::notice);
  database.open();
  QVERIFY(database.inMemory());
  QCOMPARE(notices.size(), 1);
  QVERIFY(QFile::exists(path()));
}

void TestChatStore::fullDiskKeepsOldChatsAndGoesOnInMemory() {
  {
    ChatDatabase database(path());
    QSignalSpy notices(&database, &ChatDatabase::notice);
    database.open();
    fillOne(database);
    database.limitPages(1);
    const QString large(200'000, QLatin1Char('x'));
    database.saveMessage(kChat, message(QStringLiteral("m2"), Role::Assistant, large));
    QVERIFY(database.inMemory());
    QCOMPARE(notices.size(), 1);
    const Conversation chat = database.load(kChat);
    QCOMPARE(chat.messages.size(), 2);
    QCOMPARE(chat.messages[1].content, large);
    database.saveMessage(kChat, message(QStringLiteral("m3"), Role::User, QStringLiteral("on")));
    QCOMPARE(database.load(kChat).messages.size(), 3);
    QCOMPARE(notices.size(), 1);
  }
  ChatDatabase database(path());
  database.open();
  QCOMPARE(database.load(kChat).messages.size(), 1);
}

void TestChatStore::unwritableFolderGoesOnInMemory() {
  ChatDatabase database(QStringLiteral("/proc/nowhere/chats.sqlite"));
  QSignalSpy notices(&database, &ChatDatabase::notice);
  database.open();
  QVERIFY(database.inMemory());
  QCOMPARE(notices.size(), 1);
  fillOne(database);
  QCOMPARE(database.load(kChat).messages.size(), 1);
}

void TestChatStore::oddFieldsDoNotHideAChat() {
  {
    ChatDatabase database(path());
    database.open();
    fillOne(database);
  }
  {
    QSqlDatabase db = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), QStringLiteral("odd"));
    db.setDatabaseName(path());
    QVERIFY(db.open());
    QSqlQuery query(db);
    QVERIFY(
        query.exec(QStringLiteral("UPDATE chats SET settings = 'not json', updated = 'never'")));
    QVERIFY(
        query.exec(QStringLiteral("UPDATE messages SET state = 77, stats = '[1,2]', role = 9")));
  }
  QSqlDatabase::removeDatabase(QStringLiteral("odd"));
  ChatDatabase database(path());
  database.open();
  QCOMPARE(database.list().size(), 1);
  QCOMPARE(database.load(kChat).messages.size(), 1);
  QCOMPARE(database.load(kChat).messages[0].content, QStringLiteral("Hi"));
}

void TestChatStore::settingsOutOfRangeCountAsMissing() {
  const ChatSettings settings = settingsFromJson(QStringLiteral(
      R"({"temperature": -4, "top_p": "x", "min_p": 0.5, "top_k": 1e300, "seed": "12"})"));
  QCOMPARE(settings.sampling.temperature, 1.0f);
  QCOMPARE(settings.sampling.top_p, 1.0f);
  QCOMPARE(settings.sampling.min_p, 0.5f);
  QCOMPARE(settings.sampling.top_k, 0);
  QCOMPARE(*settings.sampling.seed, 12u);
}

void TestChatStore::killedProcessLosesNothingCommitted() {
  QProcess writer;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert(QStringLiteral("QUIRE_TEST_WRITER"), path());
  writer.setProcessEnvironment(environment);
  writer.start(QCoreApplication::applicationFilePath(), {QStringLiteral("tst_chat_store")});
  QVERIFY(writer.waitForStarted());
  QByteArray output;
  while (output.count('\n') < 20 && writer.waitForReadyRead(20'000)) output += writer.readAll();
  ::kill(static_cast<pid_t>(writer.processId()), SIGKILL);
  writer.waitForFinished();
  output += writer.readAll();
  QVERIFY(output.count('\n') >= 20);
  output.truncate(output.lastIndexOf('\n'));
  const int committed = output.mid(output.lastIndexOf('\n') + 1).toInt();

  ChatDatabase database(path());
  QSignalSpy notices(&database, &ChatDatabase::notice);
  database.open();
  QCOMPARE(notices.size(), 0);
  const Conversation chat = database.load(kChat);
  QCOMPARE(chat.messages.size(), 2);
  QVERIFY(chat.messages[1].content.size() >= committed);
  QCOMPARE(chat.messages[1].state, MessageState::Interrupted);
}

QUIRE_TEST(TestChatStore)
#include "tst_chat_store.moc"
