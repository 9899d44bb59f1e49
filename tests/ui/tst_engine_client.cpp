#include <QSignalSpy>

#include "tests/support/test_main.h"
#include "tests/ui/fakes.h"
#include "ui/engine_client.h"

using namespace quire;
using namespace quire::test;

class TestEngineClient : public QObject {
  Q_OBJECT
 private slots:
  void modelIsDescribedAndLetGo();
  void framesFlowOnlyWhileWatched();
  void updatesAreJoinedBetweenDeliveries();
  void abortBeforeSubmitNeverReachesTheEngine();
  void submitWithoutAModelEndsWithASentence();
  void goneClientEndsItsAnswers();
  void snapshotArrivesInTheGuiThread();
  void reconfigureTellsTheEnginesRefusal();
};

void TestEngineClient::modelIsDescribedAndLetGo() {
  auto host = std::make_shared<FakeHost>();
  EngineClient client(host);
  QVERIFY(client.model() == nullptr);
  std::weak_ptr<FakeModel> model = host->makeReady();
  QTRY_VERIFY(client.model() != nullptr);
  QCOMPARE(client.model()->name, QStringLiteral("fake"));
  QCOMPARE(client.model()->engine.effective_context(), 512);
  HostStatus loading;
  loading.state = HostState::kLoading;
  host->set(loading, nullptr);
  QTRY_VERIFY(client.model() == nullptr);
  client.finishWork();
  QVERIFY(model.expired());
}

void TestEngineClient::framesFlowOnlyWhileWatched() {
  auto host = std::make_shared<FakeHost>();
  auto model = host->makeReady();
  EngineClient client(host);
  QSignalSpy frames(&client, &EngineClient::frame);
  QTest::qWait(80);
  QCOMPARE(frames.size(), 0);
  QVERIFY(model->fakeEngine.ring.expired());
  auto watch = client.watch();
  auto second = client.watch();
  QVERIFY(!model->fakeEngine.ring.expired());
  ArrivalRecord arrival;
  arrival.request = RequestId{5};
  arrival.label = "api";
  arrival.prompt_token_ids = {1, 2, 3};
  for (const auto& sink : model->fakeEngine.sinks) sink->on_arrival(arrival);
  auto record = std::make_shared<StepRecord>();
  record->step = 9;
  model->fakeEngine.ring.lock()->records = {record};
  model->fakeEngine.ring.lock()->lost = 2;
  QTRY_VERIFY(!frames.isEmpty());
  const auto frame = frames[0][0].value<EngineFrame>();
  QCOMPARE(frame.records.size(), std::size_t(1));
  QCOMPARE(frame.records[0]->step, std::uint64_t(9));
  QCOMPARE(frame.lost, quint64(2));
  QCOMPARE(frame.arrivals.size(), std::size_t(1));
  QCOMPARE(frame.arrivals[0].promptTokens, 3);
  QVERIFY(frame.nowSeconds > 999 && frame.nowSeconds < 1010);
  watch.reset();
  QTest::qWait(20);
  QVERIFY(!model->fakeEngine.ring.expired());
  second.reset();
  QTRY_VERIFY(model->fakeEngine.ring.expired());
  client.finishWork();
  QVERIFY(model->fakeEngine.sinks.empty());
}

void TestEngineClient::updatesAreJoinedBetweenDeliveries() {
  auto host = std::make_shared<FakeHost>();
  auto model = host->makeReady();
  EngineClient client(host);
  QSignalSpy updates(&client, &EngineClient::answerUpdated);
  client.submit({});
  QTRY_COMPARE(model->fakeEngine.count(), 1);
  QTest::qWait(40);
  const auto before = updates.size();
  for (int i = 0; i < 1000; ++i) model->fakeEngine.sendText(0, "x");
  model->fakeEngine.finish(0, FinishReason::kStop);
  QString text;
  QTRY_VERIFY(updates.last()[1].value<AnswerUpdate>().state == GenerationState::kFinished);
  for (auto i = before; i < updates.size(); ++i) text += updates[i][1].value<AnswerUpdate>().text;
  QCOMPARE(text, QString(1000, QLatin1Char('x')));
  QVERIFY(updates.size() - before < 20);
}

void TestEngineClient::abortBeforeSubmitNeverReachesTheEngine() {
  auto host = std::make_shared<FakeHost>();
  auto model = host->makeReady();
  EngineClient client(host);
  QSignalSpy updates(&client, &EngineClient::answerUpdated);
  Conversation large;
  Message message;
  message.content = QString(2'000'000, QLatin1Char('x'));
  large.messages.push_back(message);
  client.submit(large);
  client.abort(1);
  QTRY_VERIFY(!updates.isEmpty() &&
              updates.last()[1].value<AnswerUpdate>().state == GenerationState::kFinished);
  QVERIFY(model->fakeEngine.count() == 0 || model->fakeEngine.at(0).aborted);
}

void TestEngineClient::submitWithoutAModelEndsWithASentence() {
  auto host = std::make_shared<FakeHost>();
  EngineClient client(host);
  QSignalSpy updates(&client, &EngineClient::answerUpdated);
  client.submit({});
  QTRY_VERIFY(!updates.isEmpty() &&
              updates.last()[1].value<AnswerUpdate>().state == GenerationState::kFinished);
  QVERIFY(!updates.last()[1].value<AnswerUpdate>().error.isEmpty());
}

void TestEngineClient::goneClientEndsItsAnswers() {
  auto host = std::make_shared<FakeHost>();
  auto model = host->makeReady();
  {
    EngineClient client(host);
    client.submit({});
    QTRY_COMPARE(model->fakeEngine.count(), 1);
  }
  QVERIFY(model->fakeEngine.at(0).aborted);
  model->fakeEngine.sendText(0, "x");
}

void TestEngineClient::snapshotArrivesInTheGuiThread() {
  auto host = std::make_shared<FakeHost>();
  auto model = host->makeReady();
  EngineClient client(host);
  std::uint64_t step = 0;
  connect(&client, &EngineClient::snapshotReady, this,
          [&](std::shared_ptr<const EngineSnapshot> snapshot) {
            QCOMPARE(QThread::currentThread(), thread());
            step = snapshot->step;
          });
  client.requestSnapshot();
  QTRY_COMPARE(step, std::uint64_t(7));
}

void TestEngineClient::reconfigureTellsTheEnginesRefusal() {
  auto host = std::make_shared<FakeHost>();
  auto model = host->makeReady();
  EngineClient client(host);
  QSignalSpy done(&client, &EngineClient::reconfigured);
  EngineConfig config = client.model()->engine;
  config.max_num_seqs = 3;
  client.reconfigure(config);
  QTRY_COMPARE(done.size(), 1);
  QCOMPARE(done[0][0].toString(), QString());
  QCOMPARE(client.model()->engine.max_num_seqs, 3);
  config.num_blocks += 1;
  client.reconfigure(config);
  QTRY_COMPARE(done.size(), 2);
  QVERIFY(!done[1][0].toString().isEmpty());
}

QUIRE_TEST(TestEngineClient)
#include "tst_engine_client.moc"
