#include "engine/server/metrics.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

RequestId id(std::int64_t value) {
  return RequestId{value};
}

std::shared_ptr<StepRecord> step_at(double start_s) {
  auto record = std::make_shared<StepRecord>();
  record->times.start_s = start_s;
  record->num_blocks = 10;
  record->num_free_blocks = 4;
  return record;
}

void arrive(EventSink& sink, std::int64_t request, double time_s) {
  ArrivalRecord record;
  record.request = id(request);
  record.time_s = time_s;
  sink.on_arrival(record);
}

}  // namespace

class TestServerMetrics : public QObject {
  Q_OBJECT

  static bool shows(const ServerMetrics& metrics, const std::string& name, const std::string& rest,
                    const std::string& value) {
    const std::string text = metrics.prometheus_text();
    return text.find("\n" + name + "{model_name=\"m\",engine=\"0\"" + rest + "} " + value + "\n") !=
           std::string::npos;
  }

 private slots:
  void followsRequestsThroughTheirLife() {
    auto metrics = std::make_shared<ServerMetrics>();
    auto sink = metrics->attach("m");
    arrive(*sink, 1, 10.0);
    arrive(*sink, 2, 10.0);
    QVERIFY(shows(*metrics, "vllm:num_requests_waiting", "", "2"));
    auto first = step_at(10.0);
    first->admitted = {id(1)};
    first->times.forward_us = 30'000;
    first->sampled = {{id(1), 7}};
    first->totals.prompt_tokens = 5;
    first->totals.generation_tokens = 1;
    sink->on_step(first);
    QVERIFY(shows(*metrics, "vllm:num_requests_running", "", "1"));
    QVERIFY(shows(*metrics, "vllm:num_requests_waiting", "", "1"));
    QVERIFY(shows(*metrics, "vllm:kv_cache_usage_perc", "", "0.6"));
    QVERIFY(shows(*metrics, "vllm:time_to_first_token_seconds_bucket", ",le=\"0.02\"", "0"));
    QVERIFY(shows(*metrics, "vllm:time_to_first_token_seconds_bucket", ",le=\"0.04\"", "1"));
    QVERIFY(shows(*metrics, "vllm:time_to_first_token_seconds_bucket", ",le=\"+Inf\"", "1"));
    auto second = step_at(10.2);
    second->sampled = {{id(1), 8}};
    second->finished = {{id(1), FinishReason::kLength, 2}};
    second->totals.prompt_tokens = 5;
    second->totals.generation_tokens = 2;
    sink->on_step(second);
    QVERIFY(shows(*metrics, "vllm:inter_token_latency_seconds_count", "", "1"));
    QVERIFY(shows(*metrics, "vllm:inter_token_latency_seconds_bucket", ",le=\"0.2\"", "1"));
    QVERIFY(shows(*metrics, "vllm:request_success_total", ",finished_reason=\"length\"", "1"));
    QVERIFY(shows(*metrics, "vllm:generation_tokens_total", "", "2"));
    QVERIFY(shows(*metrics, "vllm:num_requests_running", "", "0"));
  }

  void anAbortCountsOnce() {
    auto metrics = std::make_shared<ServerMetrics>();
    auto sink = metrics->attach("m");
    arrive(*sink, 1, 1.0);
    AbortRecord abort;
    abort.request = id(1);
    abort.time_s = 2.0;
    sink->on_abort(abort);
    auto record = step_at(3.0);
    record->finished = {{id(1), FinishReason::kAborted, 0}};
    sink->on_step(record);
    QVERIFY(shows(*metrics, "vllm:request_success_total", ",finished_reason=\"abort\"", "1"));
    QVERIFY(shows(*metrics, "vllm:num_requests_waiting", "", "0"));
    QVERIFY(shows(*metrics, "vllm:kv_cache_usage_perc", "", "0.0"));
  }

  void countersNeverFallWhenTheEngineIsReplaced() {
    auto metrics = std::make_shared<ServerMetrics>();
    auto before = metrics->attach("m");
    auto record = step_at(1.0);
    record->totals.generation_tokens = 100;
    record->totals.prefix_cache_hits = 7;
    before->on_step(record);
    auto after = metrics->attach("m");
    auto fresh = step_at(1.0);
    fresh->totals.generation_tokens = 3;
    after->on_step(fresh);
    before->on_step(record);  // a late record of the engine that is going
    QVERIFY(shows(*metrics, "vllm:generation_tokens_total", "", "103"));
    QVERIFY(shows(*metrics, "vllm:prefix_cache_hits_total", "", "7"));
  }

  void labelsAreEscaped() {
    auto metrics = std::make_shared<ServerMetrics>();
    auto sink = metrics->attach("a\"b\\c\n");
    QVERIFY(metrics->prometheus_text().find("model_name=\"a\\\"b\\\\c\\n\"") != std::string::npos);
  }
};

QUIRE_TEST(TestServerMetrics)
#include "tst_metrics.moc"
