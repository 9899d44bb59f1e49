#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/core/step_record.h"

namespace quire {

// Observations counted into fixed upper bounds, as Prometheus wants them.
class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value);
  void write(std::string& out, const std::string& name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;     // ascending; static storage
  std::vector<std::uint64_t> counts_;  // per bound, not cumulative; the last is +Inf
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

// What /metrics shows, under vLLM's names. Totals are kept per model name and only ever grow, also
// when the model is replaced and comes back. Thread-safe.
class ServerMetrics : public std::enable_shared_from_this<ServerMetrics> {
 public:
  // A reader for one engine running `model`, to be attached to it. It becomes the one whose gauges
  // are shown. The totals it reports are those of the engine, work done before it was attached
  // included.
  std::shared_ptr<EventSink> attach(const std::string& model);

  std::string prometheus_text() const;

 private:
  class EngineReader;

  struct Totals {
    Totals();
    EngineCounters counters;  // summed over the engines that ran this model
    Histogram time_to_first_token, inter_token_latency, e2e_latency;
    std::array<std::uint64_t, 5> finished{};  // by FinishReason
  };
  struct Gauges {
    std::size_t running = 0, waiting = 0;
    double kv_usage = 0;
  };

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::string, Totals> totals_;
  std::string current_model_;
  std::weak_ptr<EventSink> current_reader_;
  Gauges gauges_;
};

}  // namespace quire
