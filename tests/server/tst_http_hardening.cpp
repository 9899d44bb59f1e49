#include <QElapsedTimer>

#include "tests/server/server_fixture.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

ServerOptions with_limits(void (*change)(ServerLimits&)) {
  ServerOptions options;
  change(options.limits);
  return options;
}

ServerOptions with_key() {
  ServerOptions options;
  options.api_key = "right-key";
  return options;
}

std::string host_line(int port) {
  return "Host: 127.0.0.1:" + std::to_string(port) + "\r\n";
}

std::string chunked_post(int port, const std::string& chunks) {
  return "POST /v1/completions HTTP/1.1\r\n" + host_line(port) +
         "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks;
}

}  // namespace

class TestHttpHardening : public QObject {
  Q_OBJECT
 private slots:
  void refusesBrokenHeads_data() {
    QTest::addColumn<QByteArray>("head");
    QTest::addColumn<int>("status");
    const auto row = [](const char* name, const char* head, int status) {
      QTest::newRow(name) << QByteArray(head) << status;
    };
    // "@" stands for a right Host line.
    row("no host", "GET /health HTTP/1.1\r\n\r\n", 400);
    row("two hosts", "GET /health HTTP/1.1\r\n@@\r\n", 400);
    row("two lengths", "GET /health HTTP/1.1\r\n@Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        400);
    row("signed length", "GET /health HTTP/1.1\r\n@Content-Length: +1\r\n\r\n", 400);
    row("list length", "GET /health HTTP/1.1\r\n@Content-Length: 1, 1\r\n\r\n", 400);
    row("huge length", "GET /health HTTP/1.1\r\n@Content-Length: 99999999999999999999\r\n\r\n",
        413);
    row("length and chunked",
        "GET /health HTTP/1.1\r\n@Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
    row("other coding", "GET /health HTTP/1.1\r\n@Transfer-Encoding: gzip, chunked\r\n\r\n", 400);
    row("blank before colon", "GET /health HTTP/1.1\r\n@Content-Length : 5\r\n\r\n", 400);
    row("folded line", "GET /health HTTP/1.1\r\n@X: a\r\n b\r\n\r\n", 400);
    row("bare line feeds", "GET /health HTTP/1.1\nHost: x\n\n", 400);
    row("control character",
        "GET /health HTTP/1.1\r\n@X: a\x01"
        "b\r\n\r\n",
        400);
    row("absolute target", "GET http://127.0.0.1/health HTTP/1.1\r\n@\r\n", 400);
    row("no target", "GET HTTP/1.1\r\n@\r\n", 400);
    row("other protocol", "GET /health HTTP/2.0\r\n@\r\n", 505);
    row("unknown method", "BREW /health HTTP/1.1\r\n@\r\n", 501);
    row("unknown expectation", "GET /health HTTP/1.1\r\n@Expect: tea\r\n\r\n", 417);
    row("tls", "\x16\x03\x01\x02\r\n\r\n", 400);
  }
  void refusesBrokenHeads() {
    QFETCH(QByteArray, head);
    QFETCH(int, status);
    ServerFixture fixture;
    head.replace("@", QByteArray::fromStdString(host_line(fixture.port)));
    RawClient client(fixture.port);
    client.send(head.toStdString());
    const RawReply reply = client.read_reply();
    QCOMPARE(reply.status, status);
    QVERIFY(!error_of(reply).isEmpty());
    QCOMPARE(reply.headers.at("connection"), std::string("close"));
    QVERIFY(client.closed_by_server());
  }

  void boundsHeadAndTarget() {
    ServerFixture fixture;
    std::string many = "GET /health HTTP/1.1\r\n" + host_line(fixture.port);
    for (int i = 0; i < 20000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
    QCOMPARE(ask(fixture.port, many + "\r\n").status, 431);
    std::string hundred;
    for (int i = 0; i < 120; ++i) hundred += "X-" + std::to_string(i) + ": y\r\n";
    QCOMPARE(ask(fixture.port, get(fixture.port, "/health", hundred)).status, 431);
    QCOMPARE(
        ask(fixture.port, get(fixture.port, "/health", "X: " + std::string(70000, 'a') + "\r\n"))
            .status,
        431);
    QCOMPARE(ask(fixture.port, get(fixture.port, "/" + std::string(9000, 'a'))).status, 414);
    QCOMPARE(ask(fixture.port, get(fixture.port, "/v1/models/" + std::string(8000, 'a'))).status,
             404);
    QCOMPARE(ask(fixture.port, get(fixture.port, "/v1/models/..%2f..%2fetc%00")).status, 404);
  }

  void boundsBodies() {
    ServerFixture fixture(with_limits([](ServerLimits& limits) { limits.max_body_bytes = 1000; }));
    const std::string big(5000, 'x');
    QCOMPARE(
        ask(fixture.port, chunked_post(fixture.port, "1388\r\n" + big + "\r\n0\r\n\r\n")).status,
        413);
    std::string pieces;
    for (int i = 0; i < 20; ++i) pieces += "64\r\n" + std::string(100, 'x') + "\r\n";
    QCOMPARE(ask(fixture.port, chunked_post(fixture.port, pieces + "0\r\n\r\n")).status, 413);
    QCOMPARE(ask(fixture.port, post(fixture.port, "/v1/completions", big)).status, 413);
    QCOMPARE(ask(fixture.port, chunked_post(fixture.port, "-2\r\nab\r\n0\r\n\r\n")).status, 400);
    QCOMPARE(ask(fixture.port, chunked_post(fixture.port, "zz\r\n")).status, 400);
    QCOMPARE(ask(fixture.port, chunked_post(fixture.port, "2\r\nabX\r\n0\r\n\r\n")).status, 400);
    QCOMPARE(ask(fixture.port, chunked_post(fixture.port, "ffffffffffffffffff\r\n")).status, 400);
  }

  void readsChunksAndIgnoresTrailers() {
    ServerFixture fixture;
    const std::string chunks =
        "7;x=y\r\n{\"promp\r\n16\r\nt\":\"ab\",\"max_tokens\":1"
        "\r\n1\r\n}\r\n0\r\nContent-Length: 9\r\n\r\n";
    RawClient client(fixture.port);
    client.send(chunked_post(fixture.port, chunks) + get(fixture.port, "/health"));
    QCOMPARE(client.read_reply().status, 200);
    QCOMPARE(client.read_reply().status, 200);  // a pipelined request is not lost
  }

  void refusesCodedBodiesAndOtherTypes() {
    ServerFixture fixture;
    const auto status = [&](const std::string& headers) {
      return ask(fixture.port, "POST /v1/completions HTTP/1.1\r\n" + host_line(fixture.port) +
                                   "Content-Length: 2\r\n" + headers + "\r\n{}")
          .status;
    };
    const std::string json = "Content-Type: application/json\r\n";
    QCOMPARE(status(json + "Content-Encoding: gzip\r\n"), 415);
    QCOMPARE(status("Content-Type: text/plain\r\n"), 415);
    QCOMPARE(status("Content-Type: application/x-www-form-urlencoded\r\n"), 415);
    QCOMPARE(status("Content-Type: multipart/form-data; boundary=x\r\n"), 415);
    QCOMPARE(status(""), 415);
    QCOMPARE(status("Content-Type: Application/JSON ; charset=utf-8\r\n"), 400);  // read, no prompt
    QCOMPARE(ask(fixture.port,
                 "POST /v1/completions HTTP/1.1\r\n" + host_line(fixture.port) + json + "\r\n")
                 .status,
             411);
  }

  void nothingOfAHeaderIsDecodedOrTrusted() {
    ServerFixture fixture;
    const RawReply reply =
        ask(fixture.port,
            get(fixture.port, "/v1/models",
                "User-Agent: a%0d%0aSet-Cookie: x\r\nREMOTE_ADDR: 9.9.9.9\r\n"
                "X-Forwarded-For: 9.9.9.9\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\n"));
    QCOMPARE(reply.status, 200);
    QVERIFY(reply.headers.count("set-cookie") == 0);
    QVERIFY(reply.headers.count("content-encoding") == 0);
    QTRY_COMPARE(fixture.server->request_log().size(), std::size_t(1));
    QCOMPARE(fixture.server->request_log()[0].client,
             std::string("127.0.0.1 a%0d%0aSet-Cookie: x"));
  }

  void aBodyIsNeverTakenForARequest() {
    ServerFixture fixture(with_key());
    const std::string inner = get(fixture.port, "/health");
    const std::string length = "Content-Length: " + std::to_string(inner.size()) + "\r\n";
    {
      RawClient client(fixture.port);
      client.send(get(fixture.port, "/health", length));
      client.send(inner);
      QCOMPARE(client.read_reply().status, 200);
      client.send(get(fixture.port, "/health", "Connection: CLOSE\r\n"));
      QCOMPARE(client.read_reply().status, 200);
      QVERIFY(client.closed_by_server());
    }
    RawClient client(fixture.port);
    client.send("POST /v1/completions HTTP/1.1\r\n" + host_line(fixture.port) +
                "Content-Type: application/json\r\n" + length + "\r\n");
    QCOMPARE(client.read_reply().status, 401);
    client.send(inner);
    QVERIFY(client.closed_by_server());
  }

  void saysWhatAPathAnswers() {
    ServerFixture fixture;
    const RawReply wrong = ask(fixture.port, get(fixture.port, "/v1/chat/completions"));
    QCOMPARE(wrong.status, 405);
    QCOMPARE(wrong.headers.at("allow"), std::string("POST, OPTIONS"));
    QCOMPARE(ask(fixture.port, post(fixture.port, "/health", "{}")).status, 405);
    const RawReply unknown = ask(fixture.port, get(fixture.port, "/nowhere"));
    QCOMPARE(unknown.status, 404);
    QVERIFY(!error_of(unknown).isEmpty());
    for (const char* path : {"/v1/models", "/models", "/v1/models/", "/v1/models?beta=true"}) {
      QCOMPARE(ask(fixture.port, get(fixture.port, path)).status, 200);
    }
    const RawReply options =
        ask(fixture.port, "OPTIONS /v1/models HTTP/1.1\r\n" + host_line(fixture.port) + "\r\n");
    QCOMPARE(options.status, 204);
    QCOMPARE(options.headers.at("allow"), std::string("GET, HEAD, OPTIONS"));
    for (const auto& [name, value] : options.headers) QVERIFY(!name.starts_with("access-control"));
    RawClient head(fixture.port);
    head.send("HEAD /health HTTP/1.1\r\n" + host_line(fixture.port) + "Connection: close\r\n\r\n");
    QVERIFY(head.read_until("200 OK"));
  }

  void hostAndOriginMustBeOurs_data() {
    QTest::addColumn<QString>("headers");
    QTest::addColumn<int>("status");
    const auto row = [](const char* headers, int status) {
      QTest::newRow(headers) << QString(headers) << status;
    };
    row("Host: 127.0.0.1:PORT", 200);
    row("Host: LOCALHOST:PORT", 200);
    row("Host: [::1]:PORT", 200);
    row("Host: 127.0.0.1", 403);
    row("Host: 127.0.0.1:1", 403);
    row("Host: evil.com:PORT", 403);
    row("Host: localhost.evil.com:PORT", 403);
    row("Host: notlocalhost:PORT", 403);
    row("Host: 127.0.0.1:PORT@evil.com", 403);
    row("Host:", 403);
    row("Host: 127.0.0.1:PORT\r\nOrigin: http://localhost:PORT", 200);
    row("Host: 127.0.0.1:PORT\r\nOrigin: http://localhost.evil.com:PORT", 403);
    row("Host: 127.0.0.1:PORT\r\nOrigin: http://localhost:1", 403);
    row("Host: 127.0.0.1:PORT\r\nOrigin: https://evil.com", 403);
    row("Host: 127.0.0.1:PORT\r\nOrigin: null", 403);
  }
  void hostAndOriginMustBeOurs() {
    QFETCH(QString, headers);
    QFETCH(int, status);
    ServerFixture fixture;
    headers.replace("PORT", QString::number(fixture.port));
    const RawReply reply =
        ask(fixture.port, "GET /health HTTP/1.1\r\n" + headers.toStdString() + "\r\n\r\n");
    QCOMPARE(reply.status, status);
    QVERIFY(reply.headers.count("access-control-allow-origin") == 0);
  }

  void theKeyGuardsEveryRouteButHealth() {
    ServerFixture fixture(with_key());
    const auto status = [&](const std::string& path, const std::string& headers) {
      return ask(fixture.port, get(fixture.port, path, headers)).status;
    };
    QCOMPARE(status("/health", ""), 200);
    QCOMPARE(status("/v1/health", ""), 200);
    for (const char* path : {"/v1/models", "/metrics", "/props", "/nowhere", "/v1/completions"}) {
      QCOMPARE(status(path, ""), 401);
      QCOMPARE(status(path, "Authorization: Bearer wrong-key\r\n"), 401);
    }
    QCOMPARE(status("/v1/models", "Authorization: Bearer right-key\r\n"), 200);
    QCOMPARE(status("/v1/models", "authorization: bearer right-key\r\n"), 200);
    QCOMPARE(status("/v1/models", "X-API-Key: right-key\r\n"), 200);
    QCOMPARE(status("/v1/models", "api-key: right-key\r\n"), 200);
    QCOMPARE(status("/v1/models", "Authorization: Basic right-key\r\n"), 401);
    QCOMPARE(status("/nowhere", "api-key: right-key\r\n"), 404);
  }

  void startsOnlyWhereItMay() {
    auto host = std::make_shared<FakeHost>();
    ServerOptions open;
    open.host = "0.0.0.0";
    open.port = 0;
    const auto refused = HttpServer::start(open, host);
    QVERIFY(!refused.ok());
    QCOMPARE(refused.error().code, ErrorCode::kInvalidArgument);
    ServerFixture fixture;
    ServerOptions same;
    same.port = fixture.port;
    const auto taken = HttpServer::start(same, host);
    QVERIFY(!taken.ok());
    QCOMPARE(taken.error().code, ErrorCode::kAddressInUse);
    const int free_port = find_free_port("127.0.0.1", fixture.port);
    QVERIFY(free_port > fixture.port);
    open.api_key = "k";
    auto wide = HttpServer::start(open, host);
    QVERIFY(wide.ok());
    const int port = (*wide)->port();
    const auto with_host = [&](const std::string& name) {
      return ask(port, "GET /v1/models HTTP/1.1\r\nHost: " + name + ":" + std::to_string(port) +
                           "\r\napi-key: k\r\n\r\n")
          .status;
    };
    QCOMPARE(with_host("192.168.1.20"), 200);
    QCOMPARE(with_host("evil.com"), 403);
  }

  void slowHeadsAndBodiesAreCutOff() {
    ServerFixture fixture(with_limits([](ServerLimits& limits) {
      limits.head_s = 0.2;
      limits.body_s = 0.2;
      limits.idle_s = 0.2;
    }));
    RawClient idle(fixture.port);
    QVERIFY(idle.closed_by_server());
    RawClient head(fixture.port);
    head.send("GET /health HTT");
    QCOMPARE(head.read_reply().status, 408);
    QVERIFY(head.closed_by_server());
    RawClient body(fixture.port);
    body.send("POST /v1/completions HTTP/1.1\r\n" + host_line(fixture.port) +
              "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{");
    QCOMPARE(body.read_reply().status, 408);
  }

  void idleAndStalledClientsKeepNobodyOut() {
    ServerFixture fixture(with_limits([](ServerLimits& limits) { limits.max_connections = 220; }));
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 200; ++i) {
      clients.push_back(std::make_unique<RawClient>(fixture.port));
      if (i % 4 == 0) {
        clients.back()->send("POST /v1/completions HTTP/1.1\r\n" + host_line(fixture.port) +
                             "Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{");
      }
    }
    QTRY_COMPARE(fixture.server->active_connections(), 200);
    QElapsedTimer timer;
    timer.start();
    QCOMPARE(ask(fixture.port, get(fixture.port, "/health")).status, 200);
    qInfo("health beside 200 idle connections: %lld ms", timer.elapsed());
    // Past the limit the longest idle ones make room.
    for (int i = 0; i < 60; ++i) clients.push_back(std::make_unique<RawClient>(fixture.port));
    QCOMPARE(ask(fixture.port, get(fixture.port, "/health")).status, 200);
  }

  void busyConnectionsAreNotDroppedForNewOnes() {
    ServerFixture fixture(with_limits([](ServerLimits& limits) { limits.max_connections = 2; }));
    fixture.behaviour->step_ms = 2;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 2; ++i) {
      clients.push_back(std::make_unique<RawClient>(fixture.port));
      clients.back()->send(post(fixture.port, "/v1/completions",
                                "{\"prompt\":\"abc\",\"max_tokens\":900,\"stream\":true}"));
      QVERIFY(clients.back()->read_until("text_completion"));
    }
    const RawReply refused = ask(fixture.port, get(fixture.port, "/health"));
    QCOMPARE(refused.status, 503);
    QVERIFY(refused.headers.count("retry-after") == 1);
    clients[0]->close();
    QTRY_COMPARE(fixture.server->active_connections(), 1);
    QCOMPARE(ask(fixture.port, get(fixture.port, "/health")).status, 200);
  }

  void keepsAConnectionForManyRequests() {
    ServerFixture fixture;
    RawClient client(fixture.port);
    for (int i = 0; i < 100; ++i) {
      client.send(get(fixture.port, "/health"));
      QCOMPARE(client.read_reply().status, 200);
    }
    QVERIFY(client.closed_by_server());
  }

  void answersContinueOnlyToWhatItWillRead() {
    ServerFixture fixture;
    const std::string head = "POST /v1/completions HTTP/1.1\r\n" + host_line(fixture.port) +
                             "Content-Type: application/json\r\nExpect: 100-continue\r\n";
    RawClient welcome(fixture.port);
    welcome.send(head + "Content-Length: 31\r\n\r\n");
    QVERIFY(welcome.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
    welcome.send("{\"prompt\":\"abc\",\"max_tokens\":1}");
    QVERIFY(welcome.read_until("HTTP/1.1 200 OK"));
    RawClient refused(fixture.port);
    refused.send(head + "Content-Length: 99999999999\r\n\r\n");
    QVERIFY(refused.read_until("\r\n"));
    QVERIFY(refused.seen().starts_with("HTTP/1.1 413"));
  }

  void errorTextsGiveNothingAway() {
    ServerFixture fixture;
    const RawReply thrown =
        ask(fixture.port, post(fixture.port, "/v1/chat/completions",
                               "{\"messages\":[{\"role\":\"user\",\"content\":\"throw\"}]}"));
    QCOMPARE(thrown.status, 500);
    QVERIFY(!error_of(thrown).isEmpty());
    QVERIFY(thrown.body.find("secret") == std::string::npos);
    QVERIFY(thrown.body.find("0x7f") == std::string::npos);
    QVERIFY(thrown.headers.count("exception_what") == 0);
    QCOMPARE(thrown.headers.at("x-should-retry"), std::string("false"));
    QVERIFY(ask(fixture.port, get(fixture.port, "/props")).body.find("/somewhere") ==
            std::string::npos);
  }
};

QUIRE_TEST(TestHttpHardening)
#include "tst_http_hardening.moc"
