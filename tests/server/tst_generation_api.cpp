#include <QJsonArray>

#include "tests/server/server_fixture.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

// The data lines of a stream, in order.
std::vector<std::string> events_of(const std::string& body) {
  std::vector<std::string> events;
  std::size_t at = 0;
  while (at < body.size()) {
    const auto end = body.find("\n\n", at);
    if (end == std::string::npos) return {"unfinished event"};
    const std::string line = body.substr(at, end - at);
    if (line.starts_with("data: ")) {
      events.push_back(line.substr(6));
    } else if (line != ":") {
      return {"neither data nor a bare comment: " + line};
    }
    at = end + 2;
  }
  return events;
}

QJsonObject choice_of(const std::string& event) {
  return json_of(event)["choices"].toArray().at(0).toObject();
}

QString content_of(const RawReply& reply) {
  return choice_of(reply.body)["message"].toObject()["content"].toString();
}

}  // namespace

class TestGenerationApi : public QObject {
  Q_OBJECT
 private slots:
  void answersAChatWhole() {
    ServerFixture fixture;
    fixture.behaviour->reply = "Hello!";
    const RawReply reply = fixture.chat(",\"model\":\"gpt-3.5-turbo\"");
    QCOMPARE(reply.status, 200);
    QCOMPARE(reply.headers.at("content-type"), std::string("application/json; charset=utf-8"));
    QVERIFY(!reply.headers.at("x-request-id").empty());
    const QJsonObject answer = json_of(reply.body);
    QCOMPARE(answer["object"].toString(), QString("chat.completion"));
    QVERIFY(answer["id"].toString().startsWith("chatcmpl-"));
    QCOMPARE(answer["model"].toString(), QString("fake"));
    QVERIFY(answer["created"].toInt() > 0);
    const QJsonObject choice = choice_of(reply.body);
    QCOMPARE(choice["finish_reason"].toString(), QString("stop"));
    QVERIFY(choice["logprobs"].isNull());
    QCOMPARE(choice["message"].toObject()["role"].toString(), QString("assistant"));
    QVERIFY(choice["message"].toObject().contains("refusal"));
    QVERIFY(!choice["message"].toObject().contains("tool_calls"));
    QCOMPARE(content_of(reply), QString("Hello!"));
    const QJsonObject usage = answer["usage"].toObject();
    QVERIFY(usage["prompt_tokens"].toInt() > 0);
    QCOMPARE(usage["completion_tokens"].toInt(), 7);  // the end token counts
    QCOMPARE(usage["total_tokens"].toInt(), usage["prompt_tokens"].toInt() + 7);
    QVERIFY(usage["prompt_tokens_details"].toObject().contains("cached_tokens"));
    for (const char* name : {"cache_n", "prompt_n", "prompt_ms", "prompt_per_second", "predicted_n",
                             "predicted_ms", "predicted_per_second"}) {
      QVERIFY(answer["timings"].toObject().contains(QLatin1String(name)));
    }
  }

  void streamsInOrder_data() {
    QTest::addColumn<bool>("usage");
    QTest::newRow("without usage") << false;
    QTest::newRow("with usage") << true;
  }
  void streamsInOrder() {
    QFETCH(bool, usage);
    ServerFixture fixture;
    fixture.behaviour->reply = "h\xC3\xA9llo";
    const RawReply reply = fixture.chat(
        std::string(",\"stream\":true") +
        (usage ? ",\"stream_options\":{\"include_usage\":true}" : ",\"stream_options\":null"));
    QCOMPARE(reply.status, 200);
    QCOMPARE(reply.headers.at("content-type"), std::string("text/event-stream"));
    QCOMPARE(reply.headers.at("cache-control"), std::string("no-cache"));
    QCOMPARE(reply.headers.at("x-accel-buffering"), std::string("no"));
    auto events = events_of(reply.body);
    QVERIFY(events.size() >= 4);
    QCOMPARE(events.back(), std::string("[DONE]"));
    events.pop_back();
    const QJsonObject first = choice_of(events.front())["delta"].toObject();
    QCOMPARE(first["role"].toString(), QString("assistant"));
    QVERIFY(first["content"].isString() && first["content"].toString().isEmpty());
    const QString id = json_of(events.front())["id"].toString();
    for (const auto& event : events) {
      const QJsonObject chunk = json_of(event);
      QCOMPARE(chunk["id"].toString(), id);
      QCOMPARE(chunk["object"].toString(), QString("chat.completion.chunk"));
      QCOMPARE(chunk["model"].toString(), QString("fake"));
    }
    if (usage) {
      const QJsonObject last = json_of(events.back());
      QVERIFY(last["choices"].toArray().isEmpty());
      QCOMPARE(last["usage"].toObject()["completion_tokens"].toInt(), 7);
      events.pop_back();
    }
    QVERIFY(choice_of(events.back())["delta"].toObject().isEmpty());
    QCOMPARE(choice_of(events.back())["finish_reason"].toString(), QString("stop"));
    QVERIFY(json_of(events.back())["timings"].isObject());
    events.pop_back();
    QString text;
    for (const auto& event : events) {
      QVERIFY(choice_of(event)["finish_reason"].isNull());
      QVERIFY(!json_of(event).contains("usage"));
      text += choice_of(event)["delta"].toObject()["content"].toString();
    }
    QCOMPARE(text, QString::fromUtf8("h\xC3\xA9llo"));
  }

  void completesRawPrompts() {
    ServerFixture fixture;
    const RawReply reply = fixture.complete(",\"max_tokens\":6,\"suffix\":null,\"best_of\":1");
    QCOMPARE(reply.status, 200);
    QCOMPARE(json_of(reply.body)["object"].toString(), QString("text_completion"));
    QVERIFY(json_of(reply.body)["id"].toString().startsWith("cmpl-"));
    QCOMPARE(choice_of(reply.body)["text"].toString(), QString("abcabc"));
    QCOMPARE(choice_of(reply.body)["finish_reason"].toString(), QString("length"));
    const auto events = events_of(fixture.complete(",\"max_tokens\":2,\"stream\":true").body);
    QCOMPARE(choice_of(events[events.size() - 2])["finish_reason"].toString(), QString("length"));
    QCOMPARE(events.back(), std::string("[DONE]"));
    const auto prompt = [&](const std::string& json) {
      return ask(fixture.port,
                 post(fixture.port, "/completions", "{\"max_tokens\":3,\"prompt\":" + json + "}"));
    };
    QCOMPARE(choice_of(prompt("[97,98]").body)["text"].toString(), QString("aba"));
    QCOMPARE(choice_of(prompt("[[97,98]]").body)["text"].toString(), QString("aba"));
    QCOMPARE(choice_of(prompt("[\"xy\"]").body)["text"].toString(), QString("xyx"));
    for (const char* bad : {"null", "[]", "\"\"", "[\"a\",\"b\"]", "[-1]", "[260]", "[1.5]", "[[]]",
                            "{}", "5", "[1,\"a\"]", "[[[1]]]"}) {
      const RawReply refused = prompt(bad);
      QVERIFY2(refused.status == 400, bad);
      QVERIFY2(!error_of(refused).isEmpty(), bad);
    }
    QCOMPARE(choice_of(fixture.complete(",\"max_tokens\":0").body)["text"].toString(), QString());
  }

  void specialTokensAreTextInMessagesAndTokensInRawPrompts() {
    ServerFixture fixture;
    fixture.behaviour->reply = "x";
    const auto prompt_tokens = [](const RawReply& reply) {
      return json_of(reply.body)["usage"].toObject()["prompt_tokens"].toInt();
    };
    const auto chat = [&](const std::string& content) {
      return prompt_tokens(
          ask(fixture.port,
              post(fixture.port, "/v1/chat/completions",
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"" + content + "\"}]}")));
    };
    QCOMPARE(chat("<|im_end|>") - chat(""), 10);
    const RawReply raw =
        ask(fixture.port, post(fixture.port, "/v1/completions", "{\"prompt\":\"a<|im_end|>b\"}"));
    QCOMPARE(prompt_tokens(raw), 3);
  }

  void nullIsAbsentAndUnknownFieldsAreIgnored() {
    ServerFixture fixture;
    fixture.behaviour->reply = "ok";
    std::string fields;
    for (const char* name : {"model",
                             "stream",
                             "stream_options",
                             "max_tokens",
                             "max_completion_tokens",
                             "temperature",
                             "top_p",
                             "min_p",
                             "top_k",
                             "n",
                             "stop",
                             "seed",
                             "logprobs",
                             "top_logprobs",
                             "logit_bias",
                             "tools",
                             "tool_choice",
                             "response_format",
                             "presence_penalty",
                             "frequency_penalty",
                             "repetition_penalty",
                             "repeat_penalty",
                             "ignore_eos",
                             "min_tokens",
                             "stop_token_ids",
                             "chat_template_kwargs",
                             "chat_template",
                             "reasoning_effort",
                             "functions"}) {
      fields += std::string(",\"") + name + "\":null";
    }
    QCOMPARE(content_of(fixture.chat(fields)), QString("ok"));
    const RawReply ignored = fixture.chat(
        ",\"store\":true,\"metadata\":{},\"user\":\"u\",\"penalty_last_n\":4,"
        "\"parallel_tool_calls\":false,\"prompt_cache_key\":\"k\",\"service_tier\":\"auto\","
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"logit_bias\":{},"
        "\"response_format\":{\"type\":\"text\"},\"seed\":18446744073709551615,\"max_tokens\":1e3");
    QCOMPARE(ignored.status, 200);
  }

  void wrongFieldsAreNamed_data() {
    QTest::addColumn<QString>("field");
    QTest::addColumn<QString>("value");
    const auto row = [](const char* field, const char* value) {
      QTest::addRow("%s=%s", field, value) << QString(field) << QString(value);
    };
    row("max_tokens", "1.5");
    row("max_tokens", "-2");
    row("max_tokens", "\"9\"");
    row("top_k", "1e20");
    row("top_k", "-2");
    row("top_k", "99999999999");
    row("temperature", "-0.1");
    row("temperature", "\"hot\"");
    row("top_p", "1.5");
    row("presence_penalty", "3");
    row("n", "2");
    row("n", "0");
    row("seed", "1.5");
    row("seed", "\"x\"");
    row("stop", "5");
    row("stop", "[5]");
    row("stop_token_ids", "[260]");
    row("stream", "\"yes\"");
    row("stream_options", "3");
    row("ignore_eos", "1");
    row("logit_bias", "{\"5\":100}");
    row("response_format", "{\"type\":\"json_object\"}");
    row("tool_choice", "\"required\"");
    row("tools", "{}");
    row("top_logprobs", "3");
    row("chat_template", "\"x\"");
    row("chat_template_kwargs", "{\"messages\":[]}");
    row("continue_final_message", "true");
    row("model", "5");
    row("grammar", "\"root ::= x\"");
    row("priority", "1.5");
    row("priority", "\"high\"");
    row("priority", "1000001");
    row("priority", "-1000001");
    row("cache_salt", "7");
    row("cache_salt", "[\"a\"]");
    row("cache_salt", "\"\"");
  }
  void wrongFieldsAreNamed() {
    QFETCH(QString, field);
    QFETCH(QString, value);
    ServerFixture fixture;
    const RawReply reply = fixture.chat((",\"" + field + "\":" + value).toStdString());
    QCOMPARE(reply.status, 400);
    QVERIFY(error_of(reply)["param"].toString().startsWith(field));
    QVERIFY(error_of(reply)["message"].toString().contains(field));
  }

  void checksMessages_data() {
    QTest::addColumn<QString>("messages");
    QTest::addColumn<int>("status");
    const auto row = [](const char* messages, int status) {
      QTest::newRow(messages) << QString(messages) << status;
    };
    row("[]", 400);
    row("{}", 400);
    row("[5]", 400);
    row("[{\"content\":\"x\"}]", 400);
    row("[{\"role\":\"wizard\",\"content\":\"x\"}]", 400);
    row("[{\"role\":\"user\"}]", 400);
    row("[{\"role\":\"user\",\"content\":5}]", 400);
    row("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}"
        "]",
        400);
    row("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
        "\"text\":\"b\"}]}]",
        200);
    row("[{\"role\":\"developer\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"x\"}]", 200);
    row("[{\"role\":\"user\",\"content\":\"raise\"}]", 400);
    row("[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":null,\"tool_"
        "calls\":"
        "[{\"id\":null,\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"not "
        "json\"}}]},"
        "{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":null}]",
        200);
    row("[{\"role\":\"user\",\"content\":\"nul \\u0000 and \\ud83d\\ude00\"}]", 200);
    row("[{\"role\":\"user\",\"content\":\"lone \\ud83d\"}]", 400);
  }
  void checksMessages() {
    QFETCH(QString, messages);
    QFETCH(int, status);
    ServerFixture fixture;
    fixture.behaviour->reply = "ok";
    const RawReply reply = ask(fixture.port, post(fixture.port, "/v1/chat/completions",
                                                  "{\"messages\":" + messages.toStdString() + "}"));
    QCOMPARE(reply.status, status);
    if (status == 400) QVERIFY(!error_of(reply).isEmpty());
  }

  void checksBodies() {
    ServerFixture fixture;
    const auto status = [&](const std::string& body) {
      const RawReply reply = ask(fixture.port, post(fixture.port, "/v1/completions", body));
      return error_of(reply).isEmpty() ? 0 : reply.status;
    };
    QCOMPARE(status(""), 400);
    QCOMPARE(status("[]"), 400);
    QCOMPARE(status("{\"prompt\":"), 400);
    QCOMPARE(status(std::string(100000, '[')), 400);
    QCOMPARE(status("{\"prompt\":\"a\",\"x\":" + std::string(70, '[') + std::string(70, ']') + "}"),
             400);
    QCOMPARE(status("{\"prompt\":\"\xff\xfe\"}"), 400);
    QCOMPARE(status("{\"prompt\":\"a\",\"top_k\":1e999}"), 400);
    std::string keys = "{\"prompt\":\"a\"";
    for (int i = 0; i < 2000; ++i) keys += ",\"" + std::to_string(i) + "\":0";
    QCOMPARE(status(keys + "}"), 400);
    QCOMPARE(ask(fixture.port, post(fixture.port, "/v1/completions",
                                    "\xEF\xBB\xBF{\r\n\"prompt\":\"a\",\r\n\"max_tokens\":1}"))
                 .status,
             200);
  }

  void aPromptThatDoesNotFitIsRefusedWithBothNumbers() {
    ServerFixture fixture;
    const RawReply reply =
        ask(fixture.port, post(fixture.port, "/v1/completions",
                               "{\"stream\":true,\"prompt\":\"" + std::string(5000, 'a') + "\"}"));
    QCOMPARE(reply.status, 400);
    const QJsonObject error = error_of(reply);
    QCOMPARE(error["code"].toString(), QString("context_length_exceeded"));
    QCOMPARE(error["n_prompt_tokens"].toInt(), 5000);
    QCOMPARE(error["n_ctx"].toInt(), 1024);
    QVERIFY(error["message"].toString().contains("maximum context length"));
    QVERIFY(error["message"].toString().contains("exceeds the available context size"));
    // More tokens than fit are only clamped.
    const RawReply clamped = fixture.complete(",\"max_tokens\":99999999999999999999");
    QCOMPARE(choice_of(clamped.body)["finish_reason"].toString(), QString("length"));
    QCOMPARE(json_of(clamped.body)["usage"].toObject()["total_tokens"].toInt(), 1024);
  }

  void stopsAtStrings() {
    ServerFixture fixture;
    fixture.behaviour->reply = "one two three";
    const RawReply reply = fixture.chat(",\"stop\":[\"thr\",\" two\"]");
    QCOMPARE(content_of(reply), QString("one"));
    QCOMPARE(choice_of(reply.body)["finish_reason"].toString(), QString("stop"));
    QCOMPARE(content_of(fixture.chat(",\"stop\":\"e\"")), QString("on"));
  }

  void givesLogprobs() {
    ServerFixture fixture;
    fixture.behaviour->reply = "ab";
    const RawReply chat = fixture.chat(",\"logprobs\":true,\"top_logprobs\":2");
    const QJsonArray content = choice_of(chat.body)["logprobs"].toObject()["content"].toArray();
    QVERIFY(content.size() >= 2);
    QCOMPARE(content[0].toObject()["token"].toString(), QString("a"));
    QCOMPARE(content[0].toObject()["logprob"].toDouble(), -0.5);
    QCOMPARE(content[0].toObject()["bytes"].toArray(), QJsonArray({97}));
    QCOMPARE(content[0].toObject()["top_logprobs"].toArray().size(), 2);
    const RawReply raw = fixture.complete(",\"logprobs\":1,\"max_tokens\":2");
    const QJsonObject legacy = choice_of(raw.body)["logprobs"].toObject();
    QCOMPARE(legacy["tokens"].toArray(), QJsonArray({"a", "b"}));
    QCOMPARE(legacy["text_offset"].toArray(), QJsonArray({0, 1}));
    QCOMPARE(legacy["top_logprobs"].toArray().size(), 2);
  }

  void saysBusyAndNotReady() {
    EngineConfig config = fake_config();
    config.max_queue = 1;
    ServerFixture fixture({}, config, true);
    RawClient waiting(fixture.port);
    waiting.send(post(fixture.port, "/v1/completions", "{\"prompt\":\"a\"}"));
    QVERIFY(fixture.wait_unfinished(1));
    const RawReply full = fixture.complete("");
    QCOMPARE(full.status, 429);
    QVERIFY(full.headers.count("retry-after") == 1);
    QVERIFY(!error_of(full).isEmpty());
    for (const HostState state :
         {HostState::kLoading, HostState::kEmpty, HostState::kFailed, HostState::kDraining}) {
      fixture.host->set(nullptr, state);
      const RawReply reply = fixture.complete("");
      QCOMPARE(reply.status, 503);
      QVERIFY(reply.headers.count("retry-after") == 1);
      QCOMPARE(ask(fixture.port, get(fixture.port, "/health")).status, 503);
      QCOMPARE(error_of(reply)["type"].toString(), QString("unavailable_error"));
    }
  }

  void aDeviceFailureEndsEveryAnswerWithAnError() {
    ServerFixture fixture;
    fixture.behaviour->step_ms = 2;
    RawClient stream(fixture.port);
    stream.send(post(fixture.port, "/v1/completions",
                     "{\"prompt\":\"abc\",\"max_tokens\":900,\"stream\":true}"));
    QVERIFY(stream.read_until("\"text\":\"b\""));
    RawClient whole(fixture.port);
    whole.send(post(fixture.port, "/v1/completions", "{\"prompt\":\"abc\",\"max_tokens\":900}"));
    QVERIFY(fixture.wait_unfinished(2));
    fixture.behaviour->fail = true;
    const auto events = events_of(stream.read_reply().body);
    QVERIFY(json_of(events.back())["error"].toObject()["message"].isString());
    const RawReply failed = whole.read_reply();
    QCOMPARE(failed.status, 500);
    QCOMPARE(failed.headers.at("x-should-retry"), std::string("false"));
    QVERIFY(!error_of(failed).isEmpty());
    QCOMPARE(ask(fixture.port, get(fixture.port, "/health")).status, 500);
  }

  void twoClientsNeverSeeEachOther() {
    ServerFixture fixture;
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 16; ++i) {
      const std::string marker = "client " + std::to_string(1000 + i) + ";";
      clients.push_back(std::make_unique<RawClient>(fixture.port));
      clients.back()->send(post(fixture.port, "/v1/completions",
                                "{\"prompt\":\"" + marker + "\",\"max_tokens\":240,\"stream\":" +
                                    (i % 2 == 0 ? "true" : "false") + "}"));
    }
    for (int i = 0; i < 16; ++i) {
      const QString marker = QString("client %1;").arg(1000 + i);
      const RawReply reply = clients[static_cast<std::size_t>(i)]->read_reply();
      QString text;
      if (i % 2 == 0) {
        for (const auto& event : events_of(reply.body)) text += choice_of(event)["text"].toString();
      } else {
        text = choice_of(reply.body)["text"].toString();
      }
      QCOMPARE(text, marker.repeated(20));
    }
  }

  void servesOldProtocolByClosing() {
    ServerFixture fixture;
    const std::string body = "{\"prompt\":\"abc\",\"max_tokens\":2,\"stream\":true}";
    RawClient client(fixture.port);
    client.send("POST /v1/completions HTTP/1.0\r\nHost: 127.0.0.1:" + std::to_string(fixture.port) +
                "\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    const RawReply reply = client.read_reply();
    QVERIFY(reply.headers.count("transfer-encoding") == 0);
    QCOMPARE(events_of(reply.body).back(), std::string("[DONE]"));
  }

  void describesTheModel() {
    ServerFixture fixture;
    const RawReply list = ask(fixture.port, get(fixture.port, "/v1/models"));
    const QJsonObject entry = json_of(list.body)["data"].toArray().at(0).toObject();
    QCOMPARE(entry["id"].toString(), QString("fake"));
    QCOMPARE(entry["object"].toString(), QString("model"));
    QCOMPARE(entry["max_model_len"].toInt(), 1024);
    QCOMPARE(ask(fixture.port, get(fixture.port, "/v1/models/fake")).status, 200);
    QCOMPARE(ask(fixture.port, get(fixture.port, "/v1/models/f%61ke")).status, 200);
    const RawReply other = ask(fixture.port, get(fixture.port, "/v1/models/other"));
    QCOMPARE(other.status, 404);
    QCOMPARE(error_of(other)["code"].toString(), QString("model_not_found"));
    const QJsonObject props = json_of(ask(fixture.port, get(fixture.port, "/props")).body);
    QCOMPARE(props["default_generation_settings"].toObject()["n_ctx"].toInt(), 1024);
    const QJsonObject memory = props["memory"].toObject();
    QCOMPARE(memory["kv_pool"].toInteger(), 3000);
    QCOMPARE(memory["estimated"].toInteger(), 1000 + 2000 + 3000 + 4000);
    QCOMPARE(memory["resident"].toInteger(), 9900);
    QCOMPARE(props["prefill_chunk_size"].toInt(), 2048);
    QCOMPARE(props["prefill_chunk_size_contended"].toInt(), 512);
    const QJsonObject engine = props["engine"].toObject();
    QCOMPARE(engine["policy"].toString(), QString("fcfs"));
    QCOMPARE(engine["max_num_seqs"].toInt(), fake_config().max_num_seqs);
    QVERIFY(engine["enable_chunked_prefill"].isBool());
    QVERIFY(!engine.contains("seed"));
  }

  // Arrivals as the engine's readers see them.
  void priorityAndSaltReachTheEngine() {
    struct Arrivals : EventSink {
      void on_step(const std::shared_ptr<const StepRecord>&) override {}
      void on_arrival(const ArrivalRecord& record) override { last = record; }
      ArrivalRecord last;
    };
    ServerFixture fixture;
    const auto arrivals = std::make_shared<Arrivals>();
    fixture.model->engine->add_sink(arrivals);
    const char* fields = ",\"max_tokens\":2,\"priority\":-3,\"cache_salt\":\"tenant\"";
    QCOMPARE(fixture.chat(fields).status, 200);
    QCOMPARE(arrivals->last.priority, -3);
    QCOMPARE(arrivals->last.cache_salt, std::string("tenant"));
    QCOMPARE(fixture.complete(",\"max_tokens\":2").status, 200);
    QCOMPARE(arrivals->last.priority, 0);
    QVERIFY(arrivals->last.cache_salt.empty());
    QCOMPARE(fixture.complete(fields).status, 200);
    QCOMPARE(arrivals->last.priority, -3);
    const std::string longest(256, 'x');
    QCOMPARE(fixture.complete(",\"max_tokens\":2,\"cache_salt\":\"" + longest + "\"").status, 200);
    QCOMPARE(fixture.complete(",\"cache_salt\":\"" + longest + "x\"").status, 400);
  }

  void turnsTextIntoTokensAndBack() {
    ServerFixture fixture;
    const auto call = [&](const char* path, const char* body) {
      return json_of(ask(fixture.port, post(fixture.port, path, body)).body);
    };
    QCOMPARE(call("/tokenize", "{\"content\":\"ab\"}")["tokens"].toArray(), QJsonArray({97, 98}));
    QCOMPARE(call("/tokenize", "{\"prompt\":\"ab\"}")["count"].toInt(), 2);
    QCOMPARE(call("/detokenize", "{\"tokens\":[97,98]}")["content"].toString(), QString("ab"));
    QCOMPARE(call("/apply-template",
                  "{\"messages\":[{\"role\":\"developer\",\"content\":\"x\"}]}")["prompt"]
                 .toString(),
             QString("<|im_start|>system\nx<|im_end|>\n<|im_start|>assistant\n"));
  }

  void logsWhatItAnswered() {
    ServerFixture fixture;
    fixture.behaviour->reply = "Hello!";
    std::vector<RequestLogEntry> heard;
    std::mutex mutex;
    auto token = fixture.server->observe_log([&](const RequestLogEntry& entry) {
      const std::lock_guard lock(mutex);
      heard.push_back(entry);
    });
    fixture.chat("", "User-Agent: test/1\r\n");
    ask(fixture.port, get(fixture.port, "/health"));
    QTRY_COMPARE(fixture.server->request_log().size(), std::size_t(1));
    const RequestLogEntry entry = fixture.server->request_log()[0];
    QCOMPARE(entry.path, std::string("/v1/chat/completions"));
    QCOMPARE(entry.status, 200);
    QCOMPARE(entry.model, std::string("fake"));
    QCOMPARE(entry.client, std::string("127.0.0.1 test/1"));
    QCOMPARE(entry.output_tokens, 7);
    QVERIFY(entry.prompt_tokens > 0 && entry.ttft_s >= 0 && entry.duration_s >= entry.ttft_s);
    QVERIFY(fixture.server->request_log(entry.sequence).empty());
    token.reset();
    fixture.chat("");
    QTRY_COMPARE(fixture.server->request_log().size(), std::size_t(2));
    QCOMPARE(heard.size(), std::size_t(1));
  }
};

QUIRE_TEST(TestGenerationApi)
#include "tst_generation_api.moc"
