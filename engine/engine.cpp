#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "engine/step_ring.h"
#include "engine/watched_runner.h"

namespace quire {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One submitted request and who listens to it. Engine thread only.
struct Listener {
  std::shared_ptr<RequestSink> sink;
  double submitted_s = 0;
  GenerationUpdate last;  // progress figures and times carried from update to update
  bool scheduled = false;
};

class EngineThread : public Engine {
 public:
  EngineThread(Options options, std::unique_ptr<Runner> runner,
               std::unique_ptr<OutputProcessor> output_processor)
      : runner_(std::move(runner)),
        output_processor_(std::move(output_processor)),
        vocab_size_(runner_.vocab_size()),
        eos_token_ids_(std::move(options.eos_token_ids)),
        core_(options.config, runner_, steady_seconds, output_processor_.get()),
        config_(options.config),
        paused_(options.start_paused) {
    core_.add_sink(&fanout_);
    thread_ = std::thread([this] { run(); });
  }

  ~EngineThread() override {
    {
      const std::lock_guard lock(mutex_);
      accepting_ = false;
      stop_ = true;
    }
    core_.cancel_step();
    wake_.notify_all();
    thread_.join();
  }

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override;
  void abort(RequestId id) override;

  void pause() override { set_paused(true, 0); }
  void resume() override { set_paused(false, 0); }
  void step(int n) override { set_paused(true, n); }
  bool paused() const override {
    const std::lock_guard lock(mutex_);
    return paused_;
  }

  Status reconfigure(const EngineConfig& config) override;
  EngineConfig config() const override {
    const std::lock_guard lock(mutex_);
    return config_;
  }
  int vocab_size() const override { return vocab_size_; }
  int num_unfinished() const override { return unfinished_.load(); }

  void request_snapshot(std::function<void(EngineSnapshot)> done) override;
  EngineSnapshot snapshot() override;
  std::shared_ptr<StepRing> open_ring(std::size_t capacity) override {
    auto ring = std::make_shared<RingBuffer>(capacity);
    fanout_.add_weak(ring);
    return ring;
  }
  void add_sink(std::shared_ptr<EventSink> sink) override { fanout_.add(std::move(sink)); }
  void remove_sink(const std::shared_ptr<EventSink>& sink) override { fanout_.remove(sink); }
  void reset_prefix_cache() override {
    post([this] { core_.reset_prefix_cache(); });
  }

  bool drain(double timeout_s) override;
  std::string failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  double now() const override { return steady_seconds(); }
  std::uint64_t steps_completed() const override { return steps_.load(); }

 private:
  using Command = std::function<void()>;
  using Listeners = std::unordered_map<std::int64_t, Listener>;

  bool post(Command command);
  void set_paused(bool paused, int steps);
  void run();
  bool wait_for_work();
  void run_commands();
  void run_one_step();
  void fail(const std::string& reason);
  void abort_all();

  void admit(std::unique_ptr<Request> request, std::shared_ptr<RequestSink> sink,
             double submitted_s);
  void deliver(RequestOutput& output, double step_begin_s);
  void finish(RequestId id, FinishReason reason, const std::string& error);
  void conclude(Listeners::iterator it, GenerationUpdate update);
  void publish_queue_positions();
  bool send(Listener& listener, GenerationUpdate update);
  void leave_queue(RequestId id);

  // Used by the engine's thread (cancel_step and worth_cancelling from any).
  WatchedRunner runner_;
  std::unique_ptr<OutputProcessor> output_processor_;
  const int vocab_size_;
  const std::vector<TokenId> eos_token_ids_;
  EventFanout fanout_;
  EngineCore core_;
  Listeners listeners_;
  std::vector<RequestId> queued_;  // submitted, not scheduled yet, in order

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::vector<Command> inbox_;
  EngineConfig config_;
  std::string failure_;
  std::int64_t next_id_ = 1;
  bool accepting_ = true;
  bool stop_ = false;
  bool exited_ = false;  // the thread takes no more commands
  bool paused_ = false;
  int steps_allowed_ = 0;  // while paused

  std::atomic<int> unfinished_{0};
  std::atomic<int> num_queued_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::thread thread_;
};

Result<RequestId> EngineThread::submit(GenerationRequest request,
                                       std::shared_ptr<RequestSink> sink) {
  const double submitted_s = steady_seconds();
  RequestId id = kNoRequest;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return make_error(ErrorCode::kDeviceFailure, failure_);
    if (!accepting_) {
      return make_error(ErrorCode::kNotReady,
                        "The model is being stopped or replaced; try again shortly.");
    }
    QUIRE_RETURN_IF_ERROR(
        check_and_clamp(config_, vocab_size_, request.prompt_token_ids.size(), request.params));
    for (const TokenId token : request.prompt_token_ids) {
      if (token < 0 || token >= vocab_size_) {
        return make_error(ErrorCode::kInvalidArgument, "Token id " + std::to_string(token) +
                                                           " is outside the vocabulary of " +
                                                           std::to_string(vocab_size_) + ".");
      }
    }
    if (num_queued_.load() >= config_.max_queue) {
      return make_error(ErrorCode::kQueueFull, "The waiting queue is full (" +
                                                   std::to_string(config_.max_queue) +
                                                   " requests); try again shortly.");
    }
    id = RequestId{next_id_++};
    auto made = std::make_shared<std::unique_ptr<Request>>(std::make_unique<Request>(
        id, std::move(request.prompt_token_ids), std::move(request.params)));
    (*made)->label = std::move(request.label);
    (*made)->cache_key = std::move(request.cache_key);
    (*made)->priority = request.priority;
    (*made)->eos_token_ids = eos_token_ids_;
    ++unfinished_;
    ++num_queued_;
    inbox_.push_back([this, made, sink = std::move(sink), submitted_s]() mutable {
      admit(std::move(*made), std::move(sink), submitted_s);
    });
  }
  wake_.notify_all();
  return id;
}

void EngineThread::abort(RequestId id) {
  const bool posted = post([this, id] {
    core_.abort_request(id);
    finish(id, FinishReason::kAborted, {});
  });
  if (posted && runner_.worth_cancelling(id)) core_.cancel_step();
}

bool EngineThread::post(Command command) {
  {
    const std::lock_guard lock(mutex_);
    if (exited_) return false;
    inbox_.push_back(std::move(command));
  }
  wake_.notify_all();
  return true;
}

void EngineThread::set_paused(bool paused, int steps) {
  {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
    steps_allowed_ = paused ? (steps > 0 ? steps_allowed_ + steps : 0) : 0;
  }
  wake_.notify_all();
}

Status EngineThread::reconfigure(const EngineConfig& config) {
  std::promise<Status> promise;
  auto future = promise.get_future();
  const bool posted = post([this, &promise, config] {
    Status status = core_.reconfigure(config);
    if (status.ok()) {
      const std::lock_guard lock(mutex_);
      config_ = core_.config();
    }
    promise.set_value(std::move(status));
  });
  if (!posted) return make_error(ErrorCode::kNotReady, "The engine has stopped.");
  return future.get();
}

void EngineThread::request_snapshot(std::function<void(EngineSnapshot)> done) {
  post([this, done = std::move(done)] { done(core_.snapshot()); });
}

EngineSnapshot EngineThread::snapshot() {
  std::promise<EngineSnapshot> promise;
  auto future = promise.get_future();
  if (!post([this, &promise] { promise.set_value(core_.snapshot()); })) return {};
  return future.get();
}

bool EngineThread::drain(double timeout_s) {
  std::unique_lock lock(mutex_);
  accepting_ = false;
  paused_ = false;
  wake_.notify_all();
  const auto timeout = std::chrono::duration<double>(std::max(0.0, timeout_s));
  const bool done =
      idle_.wait_for(lock, timeout, [this] { return unfinished_.load() == 0 || exited_; });
  lock.unlock();
  if (!done) {
    post([this] { abort_all(); });
    core_.cancel_step();
    lock.lock();
    idle_.wait(lock, [this] { return unfinished_.load() == 0 || exited_; });
  }
  return done;
}

void EngineThread::run() {
  while (wait_for_work()) {
    run_commands();
    const bool may_step = [this] {
      const std::lock_guard lock(mutex_);
      if (stop_) return false;
      if (!paused_) return true;
      return steps_allowed_ > 0;
    }();
    if (may_step && core_.has_unfinished()) {
      {
        const std::lock_guard lock(mutex_);
        if (paused_ && steps_allowed_ > 0) --steps_allowed_;
      }
      run_one_step();
    }
  }
  run_commands();
  abort_all();
  {
    const std::lock_guard lock(mutex_);
    exited_ = true;
  }
  run_commands();  // what slipped in before exited_ was set
  abort_all();
  idle_.notify_all();
}

// False when the thread should end.
bool EngineThread::wait_for_work() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return stop_ || !inbox_.empty() || (core_.has_unfinished() && (!paused_ || steps_allowed_ > 0));
  });
  return !stop_;
}

void EngineThread::run_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(inbox_);
  }
  for (Command& command : commands) command();
  if (!commands.empty()) publish_queue_positions();
}

void EngineThread::run_one_step() {
  const double begin_s = steady_seconds();
  std::vector<RequestOutput> outputs;
  try {
    outputs = core_.step();
  } catch (const std::exception& error) {
    fail(error.what());
    return;
  }
  ++steps_;
  for (RequestOutput& output : outputs) deliver(output, begin_s);
  publish_queue_positions();
}

void EngineThread::fail(const std::string& reason) {
  const std::string sentence = "The device failed: " + reason + ". Reload the model to go on.";
  {
    const std::lock_guard lock(mutex_);
    failure_ = sentence;
  }
  std::vector<RequestId> live;
  for (const auto& [id, listener] : listeners_) live.push_back(RequestId{id});
  for (const RequestId id : live) {
    core_.abort_request(id);
    finish(id, FinishReason::kError, sentence);
  }
}

void EngineThread::abort_all() {
  std::vector<RequestId> live;
  for (const auto& [id, listener] : listeners_) live.push_back(RequestId{id});
  for (const RequestId id : live) {
    core_.abort_request(id);
    finish(id, FinishReason::kAborted, {});
  }
}

void EngineThread::admit(std::unique_ptr<Request> request, std::shared_ptr<RequestSink> sink,
                         double submitted_s) {
  const RequestId id = request->id;
  Listener listener;
  listener.sink = std::move(sink);
  listener.submitted_s = submitted_s;
  listener.last.request = id;
  listener.last.num_prompt_tokens = request->num_prompt_tokens;
  listeners_.emplace(index(id), std::move(listener));
  queued_.push_back(id);
  request->arrival_time_s = submitted_s;
  if (Status added = core_.add_request(std::move(request)); !added.ok()) {
    finish(id, FinishReason::kError, added.error().message);
    return;
  }
  Listener& kept = listeners_.at(index(id));
  GenerationUpdate update = kept.last;
  update.queue_position = -1;  // sent by publish_queue_positions with the true place
  kept.last = update;
}

// Turns what a step did for a request into an update.
void EngineThread::deliver(RequestOutput& output, double step_begin_s) {
  const auto it = listeners_.find(index(output.request));
  if (it == listeners_.end()) return;
  Listener& listener = it->second;
  GenerationUpdate& last = listener.last;
  const double since_submit = steady_seconds() - listener.submitted_s;
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
  if (finished) {
    conclude(it, std::move(update));
  } else if (!send(listener, std::move(update))) {
    const RequestId id = output.request;
    core_.abort_request(id);
    finish(id, FinishReason::kAborted, {});
  }
}

// Forgets the request before its listener hears the end, so that whoever waits for that sees it
// gone.
void EngineThread::conclude(Listeners::iterator it, GenerationUpdate update) {
  Listener listener = std::move(it->second);
  listeners_.erase(it);
  --unfinished_;
  send(listener, std::move(update));
  idle_.notify_all();
}

// The last update of a request the core did not finish by itself.
void EngineThread::finish(RequestId id, FinishReason reason, const std::string& error) {
  const auto it = listeners_.find(index(id));
  if (it == listeners_.end()) return;
  if (!it->second.scheduled) leave_queue(id);
  GenerationUpdate update = it->second.last;
  update.queue_position = 0;
  update.state = GenerationState::kFinished;
  update.finish_reason = reason;
  update.error = error;
  conclude(it, std::move(update));
}

void EngineThread::leave_queue(RequestId id) {
  if (std::erase(queued_, id) > 0) --num_queued_;
}

void EngineThread::publish_queue_positions() {
  const std::vector<RequestId> queued = queued_;  // a listener that is gone changes the queue
  int ahead = 0;
  for (const RequestId id : queued) {
    const auto it = listeners_.find(index(id));
    if (it == listeners_.end()) continue;
    Listener& listener = it->second;
    if (listener.last.queue_position != ahead) {
      listener.last.queue_position = ahead;
      if (!send(listener, listener.last)) {
        core_.abort_request(id);
        finish(id, FinishReason::kAborted, {});
        continue;
      }
    }
    ++ahead;
  }
}

bool EngineThread::send(Listener& listener, GenerationUpdate update) {
  return listener.sink == nullptr || listener.sink->on_update(update);
}

}  // namespace

std::unique_ptr<Engine> Engine::create(Options options, std::unique_ptr<Runner> runner,
                                       std::unique_ptr<OutputProcessor> output_processor) {
  return std::make_unique<EngineThread>(std::move(options), std::move(runner),
                                        std::move(output_processor));
}

}  // namespace quire
