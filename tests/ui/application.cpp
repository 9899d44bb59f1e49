// Makes a QApplication in private folders for the window's tests, and runs the writer process of
// the chat store's kill test.
#include <QApplication>
#include <QTemporaryDir>
#include <QThread>

#include "tests/support/test_main.h"
#include "ui/chat_store.h"

namespace {

// Saves a growing answer for ever, telling on stdout what was committed; until it is killed.
[[noreturn]] void writeForEver(const QString& path) {
  quire::ChatStore store(path);
  store.createChat({QStringLiteral("chat"), QStringLiteral("A chat"), QDateTime()}, {});
  quire::Message question;
  question.id = QStringLiteral("question");
  question.content = QStringLiteral("Count.");
  store.saveMessage(QStringLiteral("chat"), question);
  quire::Message reply;
  reply.id = QStringLiteral("reply");
  reply.role = quire::Role::Assistant;
  reply.state = quire::MessageState::Streaming;
  for (int i = 0;; ++i) {
    reply.content += QStringLiteral("%1 ").arg(i);
    store.saveMessage(QStringLiteral("chat"), reply);
    store.waitForWrites();
    std::printf("%d\n", static_cast<int>(reply.content.size()));
    std::fflush(stdout);
    QThread::msleep(2);
  }
}

QCoreApplication* makeApplication(int& argc, char** argv) {
  static QTemporaryDir home;
  for (const char* name : {"DATA", "CONFIG", "STATE", "CACHE", "RUNTIME"}) {
    const QByteArray variable =
        QByteArray("XDG_") + name + (qstrcmp(name, "RUNTIME") ? "_HOME" : "_DIR");
    const QString folder = home.filePath(QString::fromLatin1(name));
    QDir().mkpath(folder);
    QFile::setPermissions(folder, QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner);
    qputenv(variable.constData(), folder.toUtf8());
  }
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  qunsetenv("DBUS_SESSION_BUS_ADDRESS");
  auto* app = new QApplication(argc, argv);
  const QString writerPath = qEnvironmentVariable("QUIRE_TEST_WRITER");
  if (!writerPath.isEmpty()) writeForEver(writerPath);
  return app;
}

const bool registered = [] {
  quire::test::set_application_factory(makeApplication);
  return true;
}();

}  // namespace
