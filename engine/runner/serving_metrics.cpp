#include "engine/runner/serving_metrics.h"

#include <algorithm>

namespace quire {

void ServingMetrics::arrived(RequestId request, double time_s) {
  alive_[request] = Life{.arrival_s = time_s};
  ++report_.requests;
  if (begin_s_ < 0) begin_s_ = time_s;
}

void ServingMetrics::started(RequestId request, double time_s) {
  const auto it = alive_.find(request);
  if (it == alive_.end() || it->second.started) return;
  it->second.started = true;
  wait_.add((time_s - it->second.arrival_s) * 1e3);
}

void ServingMetrics::produced(RequestId request, int num_tokens, double time_s) {
  const auto it = alive_.find(request);
  if (it == alive_.end()) return;
  Life& life = it->second;
  for (int i = 0; i < num_tokens; ++i) {
    if (life.first_s < 0) {
      life.first_s = time_s;
      ttft_.add((time_s - life.arrival_s) * 1e3);
    } else {
      itl_.add((time_s - life.last_s) * 1e3);
    }
    life.last_s = time_s;
  }
  life.num_tokens += num_tokens;
  num_tokens_ += num_tokens;
  end_s_ = std::max(end_s_, time_s);
}

void ServingMetrics::ended(RequestId request, bool by_itself) {
  const auto it = alive_.find(request);
  if (it == alive_.end()) return;
  const Life& life = it->second;
  if (by_itself) ++report_.finished;
  if (life.num_tokens > 1)
    tpot_.add((life.last_s - life.first_s) * 1e3 / static_cast<double>(life.num_tokens - 1));
  alive_.erase(it);
}

void ServingMetrics::step(const StepRecord& record) {
  const double end_s = record.times.start_s + record.times.total_us() * 1e-6;
  for (const ScheduledWork& work : record.scheduled) started(work.request, record.times.start_s);
  for (const SampledToken& sampled : record.sampled) produced(sampled.request, 1, end_s);
  for (const FinishRecord& finish : record.finished)
    ended(finish.request,
          finish.reason == FinishReason::kStop || finish.reason == FinishReason::kLength);
}

ServingReport ServingMetrics::report(const EngineCounters& totals) const {
  ServingReport report = report_;
  report.duration_s = begin_s_ < 0 ? 0 : std::max(0.0, end_s_ - begin_s_);
  if (report.duration_s > 0)
    report.output_tok_s = static_cast<double>(num_tokens_) / report.duration_s;
  report.ttft_p50 = ttft_.percentile(0.5);
  report.ttft_p99 = ttft_.percentile(0.99);
  report.ttft_mean = ttft_.mean();
  report.itl_p50 = itl_.percentile(0.5);
  report.itl_p95 = itl_.percentile(0.95);
  report.itl_p99 = itl_.percentile(0.99);
  report.itl_mean = itl_.mean();
  report.tpot_p50 = tpot_.percentile(0.5);
  report.tpot_p99 = tpot_.percentile(0.99);
  report.wait_p50 = wait_.percentile(0.5);
  report.wait_p99 = wait_.percentile(0.99);
  report.wait_max = wait_.max();
  report.totals = totals;
  if (totals.prefix_cache_queries > 0)
    report.hit_rate = static_cast<double>(totals.prefix_cache_hits) /
                      static_cast<double>(totals.prefix_cache_queries);
  return report;
}

}  // namespace quire
