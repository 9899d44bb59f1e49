#include "engine/listeners.h"

namespace quire {
namespace {

bool tell(const std::shared_ptr<RequestSink>& sink, const GenerationUpdate& update) {
  return sink == nullptr || sink->on_update(update);
}

}  // namespace

void Listeners::add(const Request& request, std::shared_ptr<RequestSink> sink, double submitted_s) {
  Listener listener;
  listener.sink = std::move(sink);
  listener.submitted_s = submitted_s;
  listener.last.request = request.id;
  listener.last.num_prompt_tokens = request.num_prompt_tokens;
  listener.last.queue_position = -1;  // none told yet
  map_.emplace(index(request.id), std::move(listener));
  queued_.push_back(request.id);
}

std::vector<RequestId> Listeners::deliver(std::span<RequestOutput> outputs, double step_begin_s,
                                          double now_s) {
  std::vector<RequestId> gone;
  for (RequestOutput& output : outputs) {
    if (!deliver(output, step_begin_s, now_s)) gone.push_back(output.request);
  }
  return gone;
}

bool Listeners::deliver(RequestOutput& output, double step_begin_s, double now_s) {
  const auto it = map_.find(index(output.request));
  if (it == map_.end()) return true;
  Listener& listener = it->second;
  GenerationUpdate& last = listener.last;
  const double since_submit = now_s - listener.submitted_s;
  if (!listener.scheduled) {
    listener.scheduled = true;
    last.first_scheduled_s = step_begin_s - listener.submitted_s;
    leave_queue(output.request);
  }
  if (!output.tokens.empty()) {
    if (last.first_token_s < 0) last.first_token_s = since_submit;
    last.last_token_s = since_submit;
  }
  last.num_prompt_tokens = output.num_prompt_tokens;
  last.num_computed_tokens = output.num_computed_tokens;
  last.num_cached_tokens = output.num_cached_tokens;
  last.num_output_tokens = output.num_output_tokens;
  last.num_preemptions = output.num_preemptions;
  last.queue_position = 0;
  const bool finished = output.finish_reason != FinishReason::kNone;
  last.state = finished                       ? GenerationState::kFinished
               : output.num_output_tokens > 0 ? GenerationState::kDecoding
                                              : GenerationState::kPrefill;
  GenerationUpdate update = last;
  update.text = std::move(output.text);
  update.tokens = std::move(output.tokens);
  update.finish_reason = output.finish_reason;
  update.stop_reason = std::move(output.stop_reason);
  if (!finished) return tell(listener.sink, update);
  conclude(it, std::move(update));
  return true;
}

std::vector<RequestId> Listeners::publish_queue_positions() {
  std::vector<RequestId> gone;
  int ahead = 0;
  for (const RequestId id : queued_) {
    const auto it = map_.find(index(id));
    if (it == map_.end()) continue;
    Listener& listener = it->second;
    if (listener.last.queue_position != ahead) {
      listener.last.queue_position = ahead;
      if (!tell(listener.sink, listener.last)) {
        gone.push_back(id);
        continue;
      }
    }
    ++ahead;
  }
  return gone;
}

void Listeners::finish(RequestId id, FinishReason reason, const std::string& error) {
  const auto it = map_.find(index(id));
  if (it == map_.end()) return;
  if (!it->second.scheduled) leave_queue(id);
  GenerationUpdate update = it->second.last;
  update.queue_position = 0;
  update.state = GenerationState::kFinished;
  update.finish_reason = reason;
  update.error = error;
  conclude(it, std::move(update));
}

std::vector<RequestId> Listeners::live() const {
  std::vector<RequestId> ids;
  for (const auto& [id, listener] : map_) ids.push_back(RequestId{id});
  return ids;
}

void Listeners::conclude(Map::iterator it, GenerationUpdate update) {
  const std::shared_ptr<RequestSink> sink = std::move(it->second.sink);
  map_.erase(it);
  hooks_.concluded();
  tell(sink, update);
}

void Listeners::leave_queue(RequestId id) {
  if (std::erase(queued_, id) > 0) hooks_.left_queue();
}

}  // namespace quire
