#include <thread>

#include "tests/server/server_fixture.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

class TestClientGone : public QObject {
  Q_OBJECT
 private slots:
  void endsItsRequestInEveryPhase_data() {
    QTest::addColumn<QString>("phase");
    QTest::addColumn<bool>("stream");
    for (const char* phase : {"queued", "prefill", "decode"}) {
      QTest::addRow("%s, stream", phase) << QString(phase) << true;
      QTest::addRow("%s, whole", phase) << QString(phase) << false;
    }
  }
  void endsItsRequestInEveryPhase() {
    QFETCH(QString, phase);
    QFETCH(bool, stream);
    ServerFixture fixture({}, fake_config(), phase == "queued");
    fixture.behaviour->step_ms = 2;
    fixture.behaviour->prefill_ms = phase == "prefill" ? 20'000 : 0;
    RawClient client(fixture.port);
    client.send(post(fixture.port, "/v1/completions",
                     "{\"prompt\":\"" + std::string(400, 'a') +
                         "\",\"max_tokens\":600,\"stream\":" + (stream ? "true}" : "false}")));
    QVERIFY(fixture.wait_unfinished(1));
    if (phase == "prefill") QTRY_VERIFY(fixture.behaviour->prefills > 0);
    if (phase == "decode") QTRY_VERIFY(fixture.model->engine->steps_completed() > 3);
    client.close();
    QVERIFY(fixture.wait_unfinished(0));
    QTRY_COMPARE(fixture.server->active_generations(), 0);
    QTRY_COMPARE(fixture.server->active_connections(), 0);
    QVERIFY(fixture.server->request_log().back().client_gone);
    if (phase == "prefill") QVERIFY(fixture.behaviour->cancelled > 0);
    const EngineSnapshot snapshot = fixture.model->engine->snapshot();
    for (const auto& block : snapshot.blocks) QCOMPARE(block.ref_count, 0);
  }

  void doesNotEndAnotherClientsRequest() {
    ServerFixture fixture;
    fixture.behaviour->step_ms = 1;
    RawClient stays(fixture.port), leaves(fixture.port);
    stays.send(post(fixture.port, "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":60}"));
    leaves.send(post(fixture.port, "/v1/completions",
                     "{\"prompt\":\"xyz\",\"max_tokens\":900,\"stream\":true}"));
    QVERIFY(leaves.read_until("\"text\":\"y\""));
    leaves.close();
    const RawReply reply = stays.read_reply();
    QCOMPARE(reply.status, 200);
    QVERIFY(reply.body.find("\"length\"") != std::string::npos);
  }

  void oneThatDoesNotReadIsDroppedAndHoldsNobodyUp() {
    ServerOptions options;
    options.limits.write_stall_s = 0.2;
    EngineConfig config = fake_config();
    config.num_blocks = 8192;
    config.max_model_len = 100'000;
    ServerFixture fixture(options, config);
    RawClient deaf(fixture.port);
    deaf.send(post(fixture.port, "/v1/completions",
                   "{\"prompt\":\"abc\",\"max_tokens\":90000,\"stream\":true,\"logprobs\":20}"));
    QVERIFY(fixture.wait_unfinished(1));
    QCOMPARE(fixture.complete(",\"max_tokens\":3").status, 200);
    QTRY_COMPARE_WITH_TIMEOUT(fixture.server->active_generations(), 0, 120'000);
    QVERIFY(fixture.model->engine->steps_completed() < 90000);
  }

  void silenceIsFilledWithBareComments() {
    ServerOptions options;
    options.limits.keep_alive_comment_s = 0.05;
    ServerFixture fixture(options, fake_config(), true);
    RawClient client(fixture.port);
    client.send(post(fixture.port, "/v1/chat/completions",
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true,"
                     "\"max_tokens\":2}"));
    QVERIFY(client.read_until("\"role\":\"assistant\""));  // the head came while it was queued
    QVERIFY(client.read_until("\r\n:\n\n\r\n"));
    fixture.model->engine->resume();
    QVERIFY(client.read_until("[DONE]"));
  }

  void stoppingDrainsAndThenAborts() {
    ServerFixture fixture;
    fixture.behaviour->step_ms = 1;
    RawClient finishes(fixture.port);
    finishes.send(post(fixture.port, "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":30}"));
    QVERIFY(fixture.wait_unfinished(1));
    fixture.server->stop(10);
    QCOMPARE(finishes.read_reply().status, 200);
    QCOMPARE(fixture.server->active_connections(), 0);

    ServerFixture other;
    other.behaviour->step_ms = 5;
    RawClient cut(other.port);
    cut.send(post(other.port, "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":900}"));
    QVERIFY(other.wait_unfinished(1));
    other.server->stop(0.05);
    QCOMPARE(other.server->active_generations(), 0);
    QVERIFY(other.wait_unfinished(0));
    QVERIFY(RawClient(other.port).send("x") == false);
  }

  void aModelSwappedAwayKeepsItsAnswersAndTheCounters() {
    ServerFixture fixture;
    fixture.behaviour->step_ms = 1;
    RawClient client(fixture.port);
    client.send(post(fixture.port, "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":60}"));
    QVERIFY(fixture.wait_unfinished(1));
    fixture.host->set(nullptr, HostState::kDraining);
    QCOMPARE(fixture.complete("").status, 503);
    QCOMPARE(client.read_reply().status, 200);
    const auto generated = [&] {
      const std::string text = ask(fixture.port, get(fixture.port, "/metrics")).body;
      const auto at = text.find("\nvllm:generation_tokens_total{");
      return std::atoi(text.c_str() + text.find("} ", at) + 2);
    };
    QCOMPARE(generated(), 60);
    fixture.model = make_fake_model(std::make_shared<Behaviour>(), fake_config());
    fixture.host->set(fixture.model, HostState::kReady);
    QCOMPARE(fixture.complete(",\"max_tokens\":5").status, 200);
    QTRY_COMPARE(generated(), 65);
  }
};

QUIRE_TEST(TestClientGone)
#include "tst_client_gone.moc"
