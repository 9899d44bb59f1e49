#include <QSignalSpy>
#include <QTemporaryDir>
#include <QThread>
#include <memory>

#include "tests/support/test_main.h"
#include "ui/single_instance.h"

using namespace quire;

class TestSingleInstance : public QObject {
  Q_OBJECT
 private slots:
  void secondStartHandsItsFilesOver();
  void anotherDataFolderIsAnotherInstance();
  void lockIsFreeAgainAfterTheEnd();
};

void TestSingleInstance::secondStartHandsItsFilesOver() {
  QTemporaryDir dir;
  SingleInstance first(dir.path());
  QVERIFY(first.acquire());
  QSignalSpy activated(&first, &SingleInstance::activated);
  const QStringList paths = {QStringLiteral("/tmp/a b.gguf"), QStringLiteral("/tmp/é\n.gguf")};
  bool taken = false;
  // The second start is another process in life; here another thread, as handOver blocks.
  std::unique_ptr<QThread> second(QThread::create([&] {
    SingleInstance other(dir.path());
    taken = !other.acquire() && other.handOver(paths);
  }));
  second->start();
  QTRY_COMPARE(activated.size(), 1);
  QVERIFY(second->wait(5000));
  QVERIFY(taken);
  QCOMPARE(activated[0][0].toStringList(), paths);
}

void TestSingleInstance::anotherDataFolderIsAnotherInstance() {
  QTemporaryDir one, two;
  SingleInstance first(one.path()), second(two.path());
  QVERIFY(first.acquire());
  QVERIFY(second.acquire());
}

void TestSingleInstance::lockIsFreeAgainAfterTheEnd() {
  QTemporaryDir dir;
  { QVERIFY(SingleInstance(dir.path()).acquire()); }
  QVERIFY(SingleInstance(dir.path()).acquire());
}

QUIRE_TEST(TestSingleInstance)
#include "tst_single_instance.moc"
