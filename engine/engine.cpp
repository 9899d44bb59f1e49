#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "engine/listeners.h"
#include "engine/step_ring.h"
#include "engine/watched_runner.h"

namespace quire {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class EngineThread : public Engine {
 public:
  EngineThread(Options options, std::unique_ptr<Runner> runner,
               std::unique_ptr<OutputProcessor> output_processor)
      : runner_(std::move(runner)),
        output_processor_(std::move(output_processor)),
        vocab_size_(runner_.vocab_size()),
        eos_token_ids_(std::move(options.eos_token_ids)),
        decisions_(make_measured_decisions(options.swap_us_per_block)),
        core_(options.config, runner_, steady_seconds, output_processor_.get()),
        listeners_({.left_queue = [this] { --num_queued_; },
                    .concluded =
                        [this] {
                          --unfinished_;
                          idle_.notify_all();
                        }}),
        config_(options.config),
        paused_(options.start_paused) {
    core_.set_decision_source(decisions_.get());
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

  bool post(Command command);
  void set_paused(bool paused, int steps);
  void run();
  bool wait_for_work();
  bool run_commands();
  bool may_step() const { return !stop_ && (!paused_ || steps_allowed_ > 0); }  // with mutex_ held
  bool take_step();
  void run_one_step();
  void fail(const std::string& reason);
  void abort_all();

  void admit(std::unique_ptr<Request> request, std::shared_ptr<RequestSink> sink,
             double submitted_s);
  void end(RequestId id, FinishReason reason, const std::string& error);
  void abort_those(const std::vector<RequestId>& gone);

  // Used by the engine's thread (cancel_step and worth_cancelling from any).
  WatchedRunner runner_;
  std::unique_ptr<OutputProcessor> output_processor_;
  const int vocab_size_;
  const std::vector<TokenId> eos_token_ids_;
  EventFanout fanout_;
  std::unique_ptr<DecisionSource> decisions_;
  EngineCore core_;
  Listeners listeners_;

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
    QUIRE_RETURN_IF_ERROR(check_token_ids(request.prompt_token_ids, vocab_size_));
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
    (*made)->cache_salt = std::move(request.cache_salt);
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
  const bool posted = post([this, id] { end(id, FinishReason::kAborted, {}); });
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
    if (run_commands() && core_.has_unfinished() && take_step()) run_one_step();
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
  wake_.wait(lock,
             [this] { return stop_ || !inbox_.empty() || (core_.has_unfinished() && may_step()); });
  return !stop_;
}

// Whether a step was allowed when the commands were taken: a step that was allowed after a request
// came has it.
bool EngineThread::run_commands() {
  std::vector<Command> commands;
  bool allowed;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(inbox_);
    allowed = may_step();
  }
  for (Command& command : commands) command();
  if (!commands.empty()) abort_those(listeners_.publish_queue_positions());
  return allowed;
}

// Whether one is still allowed; counted as taken.
bool EngineThread::take_step() {
  const std::lock_guard lock(mutex_);
  if (!may_step()) return false;
  if (paused_) --steps_allowed_;
  return true;
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
  abort_those(listeners_.deliver(outputs, begin_s, steady_seconds()));
  abort_those(listeners_.publish_queue_positions());
}

void EngineThread::fail(const std::string& reason) {
  const std::string sentence = "The device failed: " + reason + ". Reload the model to go on.";
  {
    const std::lock_guard lock(mutex_);
    failure_ = sentence;
  }
  for (const RequestId id : listeners_.live()) end(id, FinishReason::kError, sentence);
}

void EngineThread::abort_all() {
  abort_those(listeners_.live());
}

void EngineThread::abort_those(const std::vector<RequestId>& gone) {
  for (const RequestId id : gone) end(id, FinishReason::kAborted, {});
}

// Ends a request the core did not finish by itself.
void EngineThread::end(RequestId id, FinishReason reason, const std::string& error) {
  core_.abort_request(id);
  listeners_.finish(id, reason, error);
}

void EngineThread::admit(std::unique_ptr<Request> request, std::shared_ptr<RequestSink> sink,
                         double submitted_s) {
  const RequestId id = request->id;
  listeners_.add(*request, std::move(sink), submitted_s);
  request->arrival_time_s = submitted_s;
  if (Status added = core_.add_request(std::move(request)); !added.ok()) {
    listeners_.finish(id, FinishReason::kError, added.error().message);
  }
}

}  // namespace

std::unique_ptr<Engine> Engine::create(Options options, std::unique_ptr<Runner> runner,
                                       std::unique_ptr<OutputProcessor> output_processor) {
  return std::make_unique<EngineThread>(std::move(options), std::move(runner),
                                        std::move(output_processor));
}

}  // namespace quire
