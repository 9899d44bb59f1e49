#pragma once

#include <cstdint>
#include <unordered_map>

#include "engine/core/step_record.h"
#include "engine/trace/samples.h"

namespace quire {

// What a run looked like from outside. Times in milliseconds. `itl`: between two tokens of a
// request; `tpot`: a request's mean between its first and last token; `wait`: arrival to the first
// step that computed something for it.
struct ServingReport {
  std::int64_t requests = 0, finished = 0, rejected = 0;
  double duration_s = 0;
  double output_tok_s = 0;
  double ttft_p50 = 0, ttft_p99 = 0, ttft_mean = 0;
  double itl_p50 = 0, itl_p95 = 0, itl_p99 = 0, itl_mean = 0;
  double tpot_p50 = 0, tpot_p99 = 0;
  double wait_p50 = 0, wait_p99 = 0, wait_max = 0;
  double hit_rate = 0;  // of the tokens looked up in the prefix cache
  EngineCounters totals;
};

// Follows requests from arrival to end. Fed by hand, or as a reader of an engine's records.
class ServingMetrics : public EventSink {
 public:
  void arrived(RequestId request, double time_s);
  void rejected() { ++report_.rejected; }
  void started(RequestId request, double time_s);  // only the first call of a request counts
  void produced(RequestId request, int num_tokens, double time_s);
  void ended(RequestId request, bool by_itself);

  // A step's tokens count as produced at its end.
  void on_step(const std::shared_ptr<const StepRecord>& record) override { step(*record); }
  void on_arrival(const ArrivalRecord& record) override { arrived(record.request, record.time_s); }
  void step(const StepRecord& record);

  ServingReport report(const EngineCounters& totals) const;

 private:
  struct Life {
    double arrival_s = 0, first_s = -1, last_s = -1;
    bool started = false;
    std::int64_t num_tokens = 0;
  };
  std::unordered_map<RequestId, Life> alive_;
  Samples ttft_, itl_, tpot_, wait_;
  ServingReport report_;
  std::int64_t num_tokens_ = 0;
  double begin_s_ = -1, end_s_ = 0;
};

}  // namespace quire
