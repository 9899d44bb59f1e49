#include "engine/server/metrics.h"

#include <algorithm>
#include <cstdio>

namespace quire {
namespace {

// vLLM's buckets, in seconds.
constexpr double kFirstTokenBounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                        1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
constexpr double kInterTokenBounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                        .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
constexpr double kRequestBounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                     30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", value);
  std::string result(text);
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

std::string escaped(const std::string& label) {
  std::string result;
  for (const char c : label) {
    if (c == '\\' || c == '"') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result;
}

void add(EngineCounters& total, const EngineCounters& now, const EngineCounters& before) {
  const auto grow = [](std::int64_t& sum, std::int64_t a, std::int64_t b) {
    sum += std::max<std::int64_t>(a - b, 0);
  };
  grow(total.steps, now.steps, before.steps);
  grow(total.prefix_cache_queries, now.prefix_cache_queries, before.prefix_cache_queries);
  grow(total.prefix_cache_hits, now.prefix_cache_hits, before.prefix_cache_hits);
  grow(total.preemptions, now.preemptions, before.preemptions);
  grow(total.prompt_tokens, now.prompt_tokens, before.prompt_tokens);
  grow(total.generation_tokens, now.generation_tokens, before.generation_tokens);
}

}  // namespace

void Histogram::observe(double value) {
  const auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<std::size_t>(place - bounds_.begin())];
  ++count_;
  sum_ += value;
}

void Histogram::write(std::string& out, const std::string& name, const std::string& labels) const {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    out += name + "_bucket{" + labels + ",le=\"" + bound + "\"} " + std::to_string(below) + "\n";
  }
  out += name + "_sum{" + labels + "} " + number(sum_) + "\n";
  out += name + "_count{" + labels + "} " + std::to_string(count_) + "\n";
}

ServerMetrics::Totals::Totals()
    : time_to_first_token(kFirstTokenBounds),
      inter_token_latency(kInterTokenBounds),
      e2e_latency(kRequestBounds) {}

// Follows the requests of one engine. Its methods run on that engine's thread.
class ServerMetrics::EngineReader : public EventSink {
 public:
  EngineReader(std::shared_ptr<ServerMetrics> metrics, std::string model)
      : metrics_(std::move(metrics)), model_(std::move(model)) {}

  void on_step(const std::shared_ptr<const StepRecord>& record) override {
    std::lock_guard lock(metrics_->mutex_);
    Totals& totals = metrics_->totals_[model_];
    const double now = record->times.start_s + record->times.total_us() * 1e-6;
    for (const RequestId id : record->admitted) live_[id].running = true;
    for (const auto& preemption : record->preempted) live_[preemption.victim].running = false;
    for (const auto& token : record->sampled) note_token(totals, token.request, now);
    for (const auto& finish : record->finished)
      note_end(totals, finish.request, finish.reason, now);
    add(totals.counters, record->totals, seen_);
    seen_ = record->totals;
    if (record->num_blocks > 0) {
      kv_usage_ = 1.0 - static_cast<double>(record->num_free_blocks) / record->num_blocks;
    }
    publish();
  }
  void on_arrival(const ArrivalRecord& record) override {
    std::lock_guard lock(metrics_->mutex_);
    live_[record.request].arrival_s = record.time_s;
    publish();
  }
  void on_abort(const AbortRecord& record) override {
    std::lock_guard lock(metrics_->mutex_);
    note_end(metrics_->totals_[model_], record.request, FinishReason::kAborted, record.time_s);
    publish();
  }

 private:
  struct Live {
    double arrival_s = -1, last_token_s = -1;  // -1: not known, not yet
    bool running = false;
  };

  void note_token(Totals& totals, RequestId id, double now) {
    Live& live = live_[id];
    live.running = true;
    if (live.last_token_s >= 0) {
      totals.inter_token_latency.observe(now - live.last_token_s);
    } else if (live.arrival_s >= 0) {
      totals.time_to_first_token.observe(now - live.arrival_s);
    }
    live.last_token_s = now;
  }

  // An abort may be reported on its own and again in the next step: only the first counts.
  void note_end(Totals& totals, RequestId id, FinishReason reason, double now) {
    const auto place = live_.find(id);
    if (place == live_.end()) return;
    if (place->second.arrival_s >= 0) totals.e2e_latency.observe(now - place->second.arrival_s);
    ++totals.finished[static_cast<std::size_t>(reason)];
    live_.erase(place);
  }

  // With the lock held.
  void publish() {
    if (metrics_->current_reader_.lock().get() != this) return;
    Gauges& gauges = metrics_->gauges_;
    gauges.running = static_cast<std::size_t>(
        std::count_if(live_.begin(), live_.end(), [](const auto& e) { return e.second.running; }));
    gauges.waiting = live_.size() - gauges.running;
    // No step follows the last abort, so the last record's figure may be stale.
    gauges.kv_usage = live_.empty() ? 0 : kv_usage_;
  }

  const std::shared_ptr<ServerMetrics> metrics_;
  const std::string model_;
  EngineCounters seen_;
  double kv_usage_ = 0;
  std::unordered_map<RequestId, Live> live_;
};

std::shared_ptr<EventSink> ServerMetrics::attach(const std::string& model) {
  auto reader = std::make_shared<EngineReader>(shared_from_this(), model);
  std::lock_guard lock(mutex_);
  totals_[model];
  current_model_ = model;
  current_reader_ = reader;
  gauges_ = Gauges{};
  return reader;
}

std::string ServerMetrics::prometheus_text() const {
  std::lock_guard lock(mutex_);
  std::string out;
  const auto labels_of = [](const std::string& model) {
    return "model_name=\"" + escaped(model) + "\",engine=\"0\"";
  };
  const auto header = [&out](const char* name, const char* type, const char* help) {
    out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  };
  const auto gauge = [&](const char* name, const char* help, const std::string& value) {
    header(name, "gauge", help);
    if (current_model_.empty()) return;
    out += std::string(name) + "{" + labels_of(current_model_) + "} " + value + "\n";
  };
  const auto counter = [&](const char* name, const char* help,
                           std::int64_t EngineCounters::*field) {
    header(name, "counter", help);
    for (const auto& [model, totals] : totals_) {
      out += std::string(name) + "{" + labels_of(model) + "} " +
             std::to_string(totals.counters.*field) + "\n";
    }
  };
  const auto histogram = [&](const char* name, const char* help, Histogram Totals::*field) {
    header(name, "histogram", help);
    for (const auto& [model, totals] : totals_) (totals.*field).write(out, name, labels_of(model));
  };

  gauge("vllm:num_requests_running", "Requests in the running batch.",
        std::to_string(gauges_.running));
  gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.",
        std::to_string(gauges_.waiting));
  gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", number(gauges_.kv_usage));
  counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
          &EngineCounters::prefix_cache_queries);
  counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
          &EngineCounters::prefix_cache_hits);
  counter("vllm:num_preemptions_total", "Requests that gave their blocks back and waited again.",
          &EngineCounters::preemptions);
  counter("vllm:prompt_tokens_total", "Prompt tokens of admitted requests.",
          &EngineCounters::prompt_tokens);
  counter("vllm:generation_tokens_total", "Tokens generated.", &EngineCounters::generation_tokens);
  histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.",
            &Totals::time_to_first_token);
  histogram("vllm:inter_token_latency_seconds", "Between one token of a request and the next.",
            &Totals::inter_token_latency);
  histogram("vllm:e2e_request_latency_seconds", "From arrival to the end of a request.",
            &Totals::e2e_latency);
  header("vllm:request_success_total", "counter", "Requests that ended, by reason.");
  constexpr std::pair<FinishReason, const char*> kReasons[] = {{FinishReason::kStop, "stop"},
                                                               {FinishReason::kLength, "length"},
                                                               {FinishReason::kAborted, "abort"},
                                                               {FinishReason::kError, "error"}};
  for (const auto& [model, totals] : totals_) {
    for (const auto& [reason, name] : kReasons) {
      out += "vllm:request_success_total{" + labels_of(model) + ",finished_reason=\"" + name +
             "\"} " + std::to_string(totals.finished[static_cast<std::size_t>(reason)]) + "\n";
    }
  }
  return out;
}

}  // namespace quire
