#include "engine/server/answer.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

namespace quire {
namespace {

using std::chrono::steady_clock;

constexpr int kClientGoneStatus = 499;  // only ever seen in the log

void note(RequestLogEntry& log, const Generation& generation, const GenerationUpdate& update) {
  log.model = generation.model().id;
  log.request = generation.id();
  log.prompt_tokens = update.num_prompt_tokens;
  log.output_tokens = update.num_output_tokens;
  log.cached_tokens = update.num_cached_tokens;
  log.ttft_s = update.first_token_s;
}

bool failed(const GenerationUpdate& end) {
  return end.finish_reason == FinishReason::kError || end.finish_reason == FinishReason::kAborted;
}

ApiError failure_of(const GenerationUpdate& end) {
  if (end.finish_reason == FinishReason::kError) {
    return {.status = 500,
            .message = end.error.empty() ? "The engine failed on this request." : end.error,
            .code = "engine_failure"};
  }
  return {.status = 503,
          .message =
              "The request was stopped: the server is stopping, the model is being "
              "replaced, or someone ended it in the window.",
          .code = "aborted",
          .retry_after_s = 2};
}

HttpReply answer_whole(Exchange& exchange, const AnswerJob& job) {
  GenerationUpdate collected;
  while (collected.state != GenerationState::kFinished) {
    if (auto update = job.generation->next(kClientPollMs)) {
      merge(collected, *update);
      note(exchange.log(), *job.generation, collected);
    }
    if (collected.state != GenerationState::kFinished && exchange.client_gone()) {
      job.generation->abort();
      exchange.log().client_gone = true;
      return HttpReply{.status = kClientGoneStatus};
    }
  }
  if (failed(collected)) return error_reply(failure_of(collected));
  return HttpReply{.body = dump_json(job.shape->whole(collected))};
}

// Writes server-sent events: one JSON document a line, nothing split over lines.
class EventStream {
 public:
  EventStream(BodyWriter& writer, double comment_after_s)
      : writer_(writer), comment_after_(comment_after_s) {}

  bool data(const std::string& text) {
    last_ = steady_clock::now();
    return writer_.write("data: " + text + "\n\n");
  }
  bool json(const Json& value) { return value.is_null() || data(dump_json(value)); }
  // A bare comment: some clients take a named one for the end.
  bool keep_alive() {
    if (steady_clock::now() - last_ < comment_after_) return true;
    last_ = steady_clock::now();
    return writer_.write(":\n\n");
  }

 private:
  BodyWriter& writer_;
  const std::chrono::duration<double> comment_after_;
  steady_clock::time_point last_ = steady_clock::now();
};

bool write_deltas(EventStream& events, const AnswerJob& job, const GenerationUpdate& update) {
  const bool shows = !update.text.empty() || (job.logprobs && !update.tokens.empty());
  return !shows || events.json(job.shape->delta_chunk(update));
}

bool write_end(EventStream& events, const AnswerJob& job, const GenerationUpdate& end) {
  if (failed(end)) return events.data(error_json(failure_of(end)));
  return events.json(job.shape->finish_chunk(end)) &&
         (!job.include_usage || events.json(job.shape->usage_chunk(end))) && events.data("[DONE]");
}

void stream_answer(Exchange& exchange, const AnswerJob& job, BodyWriter& writer) {
  EventStream events(writer, job.keep_alive_comment_s);
  bool alive = events.json(job.shape->opening_chunk());
  while (alive) {
    auto update = job.generation->next(kClientPollMs);
    if (!update) {
      alive = !exchange.client_gone() && events.keep_alive();
      continue;
    }
    note(exchange.log(), *job.generation, *update);
    alive = write_deltas(events, job, *update);
    if (alive && update->state == GenerationState::kFinished) {
      write_end(events, job, *update);
      return;
    }
    // A stream that is never read still notices that its client left.
    alive = alive && !exchange.client_gone();
  }
  job.generation->abort();
  exchange.log().client_gone = true;
}

}  // namespace

HttpReply answer(Exchange& exchange, AnswerJob job) {
  exchange.log().model = job.generation->model().id;
  exchange.log().request = job.generation->id();
  exchange.log().streamed = job.stream;
  if (!job.stream) return answer_whole(exchange, job);
  HttpReply reply{.content_type = "text/event-stream",
                  .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
  reply.stream = [&exchange, job = std::move(job)](BodyWriter& writer) {
    stream_answer(exchange, job, writer);
  };
  return reply;
}

const char* finish_reason_name(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

Json usage_json(const GenerationUpdate& end) {
  return {{"prompt_tokens", end.num_prompt_tokens},
          {"completion_tokens", end.num_output_tokens},
          {"total_tokens", end.num_prompt_tokens + end.num_output_tokens},
          {"prompt_tokens_details", {{"cached_tokens", end.num_cached_tokens}}}};
}

Json timings_json(const GenerationUpdate& end) {
  const auto span_ms = [](double from, double to) {
    return from >= 0 && to > from ? (to - from) * 1000 : 0.0;
  };
  const auto rate = [](int tokens, double ms) { return ms > 0 ? tokens * 1000.0 / ms : 0.0; };
  const double prompt_ms = span_ms(end.first_scheduled_s, end.first_token_s);
  const double predicted_ms = span_ms(end.first_token_s, end.last_token_s);
  const int computed = end.num_prompt_tokens - end.num_cached_tokens;
  // The first token comes with the prompt, so the time after it belongs to the others.
  const int later = std::max(end.num_output_tokens - 1, 0);
  return {{"cache_n", end.num_cached_tokens},
          {"prompt_n", computed},
          {"prompt_ms", prompt_ms},
          {"prompt_per_second", rate(computed, prompt_ms)},
          {"predicted_n", end.num_output_tokens},
          {"predicted_ms", predicted_ms},
          {"predicted_per_second", rate(later, predicted_ms)}};
}

}  // namespace quire
