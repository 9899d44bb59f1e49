#pragma once

#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>
#include <memory>
#include <string>

#include "engine/server/http_server.h"
#include "tests/server/fake_model.h"
#include "tests/server/raw_client.h"

namespace quire::test {

// A server on a free port over a fake model.
struct ServerFixture {
  explicit ServerFixture(ServerOptions options = {}, EngineConfig config = fake_config(),
                         bool paused = false) {
    model = make_fake_model(behaviour, config, paused);
    host->set(model, HostState::kReady);
    options.port = 0;
    auto started = HttpServer::start(std::move(options), host);
    if (started.ok()) server = std::move(*started);
    port = server == nullptr ? 0 : server->port();
  }
  ~ServerFixture() {
    if (server != nullptr) server->stop(0);
  }

  RawReply chat(const std::string& fields, const std::string& headers = {}) const {
    return ask(port, post(port, "/v1/chat/completions", chat_body(fields), headers));
  }
  RawReply complete(const std::string& fields) const {
    return ask(port, post(port, "/v1/completions", "{\"prompt\":\"abc\"" + fields + "}"));
  }
  static std::string chat_body(const std::string& fields) {
    return "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]" + fields + "}";
  }
  // Waits until the engine holds `count` requests; false after ten seconds.
  bool wait_unfinished(int count) const {
    for (int i = 0; i < 2000 && model->engine->num_unfinished() != count; ++i) QTest::qSleep(5);
    return model->engine->num_unfinished() == count;
  }

  std::shared_ptr<Behaviour> behaviour = std::make_shared<Behaviour>();
  std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();
  std::shared_ptr<HostedModel> model;
  std::unique_ptr<HttpServer> server;
  int port = 0;
};

inline QJsonObject json_of(const std::string& text) {
  return QJsonDocument::fromJson(QByteArray::fromStdString(text)).object();
}

// The error object; empty unless all four members are there.
inline QJsonObject error_of(const RawReply& reply) {
  const QJsonObject error = json_of(reply.body)["error"].toObject();
  for (const char* name : {"message", "type", "param", "code"}) {
    if (!error.contains(QLatin1String(name))) return {};
  }
  return error;
}

}  // namespace quire::test
