#include <unordered_map>

#include "engine/trace/reader.h"

namespace quire {
namespace {

class Gatherer {
 public:
  explicit Gatherer(std::uint64_t first_step) : next_step_(first_step) {}

  void operator()(ArrivalRecord& arrival) {
    by_id_[arrival.request] = requests.size();
    RecordedRequest& request = requests.emplace_back();
    request.arrival = std::move(arrival);
    request.arrived_before_step = next_step_;
  }
  void operator()(const StepRecord& step) {
    next_step_ = step.step + 1;
    const double end_s = end_of(step);
    if (step.outcome == StepOutcome::kCompleted) note_cached(step);
    for (const Preemption& preemption : step.preempted)
      if (RecordedRequest* request = find(preemption.victim)) ++request->num_preemptions;
    for (const SampledToken& sampled : step.sampled) {
      RecordedRequest* request = find(sampled.request);
      if (request == nullptr) continue;
      request->output.push_back(sampled.token);
      request->token_times_s.push_back(end_s);
    }
    for (const FinishRecord& finish : step.finished) {
      RecordedRequest* request = find(finish.request);
      if (request == nullptr) continue;
      request->finish = finish.reason;
      request->finished_s = end_s;
    }
  }
  template <typename Other>
  void operator()(const Other&) {}

  std::vector<RecordedRequest> requests;

 private:
  RecordedRequest* find(RequestId id) {
    const auto it = by_id_.find(id);
    return it == by_id_.end() ? nullptr : &requests[it->second];
  }
  void note_cached(const StepRecord& step) {
    for (const ScheduledWork& work : step.scheduled) {
      RecordedRequest* request = work.num_cached_tokens > 0 ? find(work.request) : nullptr;
      if (request != nullptr && request->num_preemptions == 0)
        request->num_cached_tokens = work.num_cached_tokens;
    }
  }

  std::unordered_map<RequestId, std::size_t> by_id_;
  std::uint64_t next_step_;
};

}  // namespace

std::vector<RecordedRequest> recorded_requests(const TraceReader& reader) {
  Gatherer gather(reader.first_step());
  TraceEvent event;
  for (TraceCursor cursor = reader.begin(); cursor.next(event);) std::visit(gather, event);
  return std::move(gather.requests);
}

}  // namespace quire
