#include "engine/trace/perfetto.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/trace/record_text.h"

namespace quire {
namespace {

// Processes of the trace viewer: the engine, and the requests, a thread each.
constexpr int kEngine = 1, kRequests = 2;
constexpr std::size_t kPieceBytes = 1 << 16;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Exporter {
 public:
  explicit Exporter(const std::function<bool(std::string_view)>& write) : write_(write) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    name("process_name", kEngine, 0, "Engine");
    name("process_name", kRequests, 0, "Requests");
    name("thread_name", kEngine, 1, "Steps");
  }

  void operator()(const EngineSnapshot&) {}
  void operator()(const ArrivalRecord& arrival) {
    const std::string title = fmt::format("{} {}", index(arrival.request), arrival.label);
    name("thread_name", kRequests, index(arrival.request), title);
    mark(kRequests, index(arrival.request), at(arrival.time_s),
         fmt::format("arrives, {} tokens", arrival.prompt_token_ids.size()));
  }
  void operator()(const AbortRecord& abort) {
    mark(kRequests, index(abort.request), at(abort.time_s), "abort");
  }
  void operator()(const ReconfigureRecord& change) {
    mark(kEngine, 1, at(change.time_s), "settings changed");
  }
  void operator()(const CacheResetRecord& reset) {
    mark(kEngine, 1, at(reset.time_s), "prefix cache reset");
  }
  void operator()(const StepRecord& step) {
    const double begin = at(step.times.start_s);
    const auto length = static_cast<double>(step.times.total_us());
    if (!step.scheduled.empty()) add_phases(step, begin, length);
    for (const ScheduledWork& work : step.scheduled)
      span(kRequests, index(work.request), begin, length,
           fmt::format("{} {}", text_of(work.kind), work.num_tokens),
           fmt::format("{{\"computed\":{},\"cached\":{},\"step\":{}}}", work.num_computed_tokens,
                       work.num_cached_tokens, step.step));
    for (const Preemption& preemption : step.preempted)
      mark(kRequests, index(preemption.victim), begin, "preempted: " + text_of(preemption));
    for (const FinishRecord& finish : step.finished)
      mark(kRequests, index(finish.request), begin + length, "ends: " + text_of(finish.reason));
    add_counters(step, begin + length);
  }

  bool flush_if_large() { return text_.size() < kPieceBytes || flush(); }
  void end() {
    text_ += "\n]}\n";
    flush();
  }

 private:
  double at(double seconds) {
    if (!started_) first_s_ = seconds;
    started_ = true;
    return (seconds - first_s_) * 1e6;
  }
  void add_phases(const StepRecord& step, double begin, double length) {
    span(kEngine, 1, begin, length, fmt::format("step {}", step.step),
         fmt::format("{{\"outcome\":\"{}\",\"tokens\":{},\"cached\":{}}}", text_of(step.outcome),
                     step.tokens.computed, step.tokens.cached));
    const std::pair<const char*, float> phases[] = {{"schedule", step.times.schedule_us},
                                                    {"prepare", step.times.prepare_us},
                                                    {"forward", step.times.forward_us},
                                                    {"sample", step.times.sample_us},
                                                    {"update", step.times.update_us}};
    for (const auto& [title, us] : phases) {
      span(kEngine, 1, begin, static_cast<double>(us), title, "{}");
      begin += static_cast<double>(us);
    }
  }
  void add_counters(const StepRecord& step, double time) {
    counter(time, "Blocks",
            fmt::format("{{\"in use\":{},\"cached\":{}}}", step.num_blocks - step.num_free_blocks,
                        step.num_cached_blocks));
    counter(time, "Requests",
            fmt::format("{{\"running\":{},\"waiting\":{}}}", step.num_running, step.num_waiting));
    counter(time, "Tokens of a step",
            fmt::format("{{\"prefill\":{},\"decode\":{}}}", step.shape.prefill_tokens,
                        step.shape.decode_tokens));
  }

  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    text_ += separator_;
    separator_ = ",\n";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void name(const char* what, int process, std::int64_t thread, const std::string& title) {
    event(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process,
          thread, quoted(title));
  }
  void span(int process, std::int64_t thread, double begin, double length, const std::string& title,
            const std::string& args) {
    event(R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{}}})", title,
          process, thread, begin, length, args);
  }
  void mark(int process, std::int64_t thread, double time, const std::string& title) {
    event(R"({{"ph":"i","s":"t","name":"{}","pid":{},"tid":{},"ts":{:.3f}}})", title, process,
          thread, time);
  }
  void counter(double time, const char* title, const std::string& values) {
    event(R"({{"ph":"C","name":"{}","pid":{},"tid":0,"ts":{:.3f},"args":{}}})", title, kEngine,
          time, values);
  }
  bool flush() {
    const bool more = write_(text_);
    text_.clear();
    return more;
  }

  const std::function<bool(std::string_view)>& write_;
  std::string text_;
  const char* separator_ = "\n";
  bool started_ = false;
  double first_s_ = 0;
};

}  // namespace

void export_perfetto(const TraceReader& reader,
                     const std::function<bool(std::string_view)>& write) {
  Exporter exporter(write);
  TraceEvent event;
  for (TraceCursor cursor = reader.begin(); cursor.next(event);) {
    std::visit(exporter, event);
    if (!exporter.flush_if_large()) return;
  }
  exporter.end();
}

}  // namespace quire
