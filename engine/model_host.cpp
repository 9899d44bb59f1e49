#include "engine/model_host.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <list>
#include <mutex>
#include <new>
#include <thread>

#include "engine/load_config.h"
#include "engine/runner/model_runner.h"
#include "engine/text/text_output.h"

namespace quire {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(50);

struct LoadJob {
  std::string path, id;
  LoadOptions options;
  double drain_timeout_s = 0;
  ProgressCallback progress;
  std::promise<Result<std::shared_ptr<HostedModel>>> promise;
  bool unload = false;
};

// Owns everything a running model needs; destroyed in the order engine, weights, backend.
struct RunningModel : HostedModel {
  std::unique_ptr<Backend> backend;
  LoadedWeights weights;
  std::unique_ptr<Engine> running_engine;
};

Result<std::shared_ptr<HostedModel>> start_model(LoadJob& job, const ProgressCallback& progress) {
  auto model = std::make_shared<RunningModel>();
  model->memory.program = process_memory().resident_bytes;
  QUIRE_TRY(model->backend, make_backend(job.options));
  QUIRE_TRY(model->weights, load_model(job.path, *model->backend, progress));
  FlatModel& flat = *model->weights.model;

  if (job.options.block_size < 1 || job.options.block_size > 1024) {
    return make_error(ErrorCode::kInvalidArgument, "The block size must be from 1 to 1024 tokens.");
  }
  const std::size_t bytes_per_block =
      model->backend->kv_bytes_per_block(flat.config().kv_spec(), job.options.block_size);
  QUIRE_TRY(LoadConfig chosen,
            make_load_config(job.options, flat.config().context_length, bytes_per_block));
  const EngineConfig& config = chosen.engine;
  QUIRE_TRY(auto runner,
            ModelRunner::create(flat, config.num_blocks, config.block_size,
                                config.max_num_batched_tokens, config.num_swap_blocks));

  model->id = job.id;
  model->path = job.path;
  model->name = job.path == job.id ? model->weights.name : job.id;
  model->description = model->weights.description;
  model->backend_description = model->backend->name() + ": " + model->backend->description();
  model->template_note = model->weights.template_note;
  model->notes = std::move(chosen.notes);
  for (std::string& warning : model->backend->warnings()) model->notes.push_back(warning);
  model->config = flat.config();
  model->num_parameters = model->weights.num_parameters;
  model->memory.weights = flat.weight_bytes();
  model->memory.kv_pool = bytes_per_block * static_cast<std::size_t>(config.num_blocks);
  model->memory.buffers = flat.buffer_bytes();
  model->created_unix_s = std::chrono::duration_cast<std::chrono::seconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
  model->tokenizer = model->weights.tokenizer.get();
  model->chat_template = model->weights.chat_template.get();
  const double swap_us_per_block = runner->swap_us_per_block();
  model->running_engine = Engine::create(
      {config, false, model->tokenizer->end_ids(), swap_us_per_block}, std::move(runner),
      std::make_unique<TextOutputProcessor>(*model->weights.tokenizer));
  model->engine = model->running_engine.get();
  model->memory.resident = process_memory().resident_bytes;
  if (job.options.on_started) QUIRE_RETURN_IF_ERROR(job.options.on_started(*model));
  return std::shared_ptr<HostedModel>(std::move(model));
}

class Host : public ModelHost, public std::enable_shared_from_this<Host> {
 public:
  Host() : thread_([this] { run(); }) {}
  ~Host() override { shutdown(0); }

  void load(std::string path, std::string id, LoadOptions options,
            double drain_timeout_s) override {
    auto job = std::make_unique<LoadJob>();
    job->path = std::move(path);
    job->id = std::move(id);
    job->options = std::move(options);
    job->drain_timeout_s = drain_timeout_s;
    enqueue(std::move(job));
  }

  Result<std::shared_ptr<HostedModel>> load_and_wait(std::string path, std::string id,
                                                     LoadOptions options,
                                                     const ProgressCallback& progress) override {
    auto job = std::make_unique<LoadJob>();
    job->path = std::move(path);
    job->id = std::move(id);
    job->options = std::move(options);
    job->progress = progress;
    auto future = job->promise.get_future();
    enqueue(std::move(job));
    return future.get();
  }

  void cancel_load() override {
    std::unique_ptr<LoadJob> dropped;
    {
      const std::lock_guard lock(mutex_);
      cancel_ = true;
      dropped = std::move(next_);
    }
    if (dropped) {
      dropped->promise.set_value(make_error(ErrorCode::kCancelled, "The load was cancelled."));
    }
  }

  void unload() override {
    auto job = std::make_unique<LoadJob>();
    job->unload = true;
    job->drain_timeout_s = 30;
    enqueue(std::move(job));
  }

  std::shared_ptr<HostedModel> current() const override {
    const std::lock_guard lock(mutex_);
    return status_.state == HostState::kReady ? model_ : nullptr;
  }
  HostStatus status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  LoadOptions options() const override {
    const std::lock_guard lock(mutex_);
    return options_;
  }

  std::shared_ptr<void> subscribe(Listener listener) override;
  void shutdown(double drain_timeout_s) override;

 private:
  // Held by the subscriber through a token; `mutex` is held during each call, so that dropping the
  // token waits for a call in flight.
  struct Subscription {
    std::mutex mutex;
    Listener listener;  // empty once dropped
  };

  void enqueue(std::unique_ptr<LoadJob> job);
  void run();
  void serve(LoadJob& job);
  void stop_current(double drain_timeout_s);
  void set_status(HostStatus status);
  bool cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancel_ || stop_;
  }

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_;
  std::unique_ptr<LoadJob> next_;
  std::shared_ptr<HostedModel> model_;
  HostStatus status_;
  LoadOptions options_;
  bool cancel_ = false;
  bool stop_ = false;
  std::list<std::shared_ptr<Subscription>> subscriptions_;
  std::mutex join_mutex_;
  std::thread thread_;
};

void Host::enqueue(std::unique_ptr<LoadJob> job) {
  std::unique_ptr<LoadJob> replaced;
  {
    const std::lock_guard lock(mutex_);
    if (stop_) {
      replaced = std::move(job);
    } else {
      cancel_ = true;  // a load in progress gives way
      replaced = std::exchange(next_, std::move(job));
    }
  }
  wake_.notify_all();
  if (replaced) {
    replaced->promise.set_value(
        make_error(ErrorCode::kCancelled, "The load was replaced by another."));
  }
}

void Host::run() {
  while (true) {
    std::unique_ptr<LoadJob> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || next_ != nullptr; });
      if (stop_) break;
      job = std::move(next_);
      cancel_ = false;
    }
    serve(*job);
  }
  std::unique_ptr<LoadJob> left;
  {
    const std::lock_guard lock(mutex_);
    left = std::move(next_);
  }
  if (left) left->promise.set_value(make_error(ErrorCode::kCancelled, "The program is stopping."));
}

void Host::serve(LoadJob& job) {
  stop_current(job.drain_timeout_s);
  if (job.unload) {
    set_status({});
    job.promise.set_value(make_error(ErrorCode::kNotReady, "The model was unloaded."));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    options_ = job.options;
  }
  set_status({HostState::kLoading, job.id, {}, {}});
  auto last = std::chrono::steady_clock::now() - kProgressInterval;
  const ProgressCallback progress = [&](const LoadProgress& now) {
    if (cancelled() || (job.progress && !job.progress(now))) return false;
    const auto time = std::chrono::steady_clock::now();
    if (time - last >= kProgressInterval || now.bytes_done == now.bytes_total) {
      last = time;
      set_status({HostState::kLoading, job.id, now, {}});
    }
    return true;
  };
  Result<std::shared_ptr<HostedModel>> loaded = [&]() -> Result<std::shared_ptr<HostedModel>> {
    try {
      return start_model(job, progress);
    } catch (const std::bad_alloc&) {
      return make_error(ErrorCode::kOutOfMemory,
                        "There is not enough memory to load " + job.id + ".");
    } catch (const std::exception& error) {
      return make_error(ErrorCode::kBadModelFile, "Loading " + job.id + " failed: " + error.what());
    }
  }();
  if (loaded.ok() && cancelled()) {
    loaded = make_error(ErrorCode::kCancelled, "Loading " + job.id + " was cancelled.");
  }
  if (loaded.ok()) {
    {
      const std::lock_guard lock(mutex_);
      model_ = *loaded;
    }
    set_status({HostState::kReady, job.id, {}, {}});
  } else {
    set_status({HostState::kFailed, job.id, {}, loaded.error().message});
  }
  job.promise.set_value(std::move(loaded));
}

void Host::stop_current(double drain_timeout_s) {
  std::shared_ptr<HostedModel> model;
  {
    const std::lock_guard lock(mutex_);
    model = model_;
  }
  if (!model) return;
  set_status({HostState::kDraining, model->id, {}, {}});
  model->engine->drain(drain_timeout_s);
  const std::lock_guard lock(mutex_);
  model_.reset();
}

void Host::set_status(HostStatus status) {
  std::vector<std::shared_ptr<Subscription>> targets;
  {
    const std::lock_guard lock(mutex_);
    status_ = status;
    targets.assign(subscriptions_.begin(), subscriptions_.end());
  }
  for (const auto& target : targets) {
    const std::lock_guard lock(target->mutex);
    if (target->listener) target->listener(status);
  }
}

std::shared_ptr<void> Host::subscribe(Listener listener) {
  auto subscription = std::make_shared<Subscription>();
  subscription->listener = std::move(listener);
  {
    const std::lock_guard lock(mutex_);
    subscriptions_.push_back(subscription);
  }
  const std::weak_ptr<Host> self = weak_from_this();
  return std::shared_ptr<void>(subscription.get(), [self, subscription](void*) {
    {
      const std::lock_guard lock(subscription->mutex);
      subscription->listener = {};
    }
    if (const auto host = self.lock()) {
      const std::lock_guard lock(host->mutex_);
      std::erase(host->subscriptions_, subscription);
    }
  });
}

void Host::shutdown(double drain_timeout_s) {
  const std::lock_guard joining(join_mutex_);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  stop_current(drain_timeout_s);
  set_status({});
}

Result<CpuPin> cpu_pin_of(const std::string& name) {
  if (name == "none") return CpuPin::kNone;
  if (name == "cores") return CpuPin::kCores;
  return make_error(ErrorCode::kInvalidArgument,
                    "Threads can be pinned to none or to cores, not to '" + name + "'.");
}

Result<CpuPriority> cpu_priority_of(const std::string& name) {
  if (name == "low") return CpuPriority::kLow;
  if (name == "normal") return CpuPriority::kNormal;
  if (name == "high") return CpuPriority::kHigh;
  return make_error(ErrorCode::kInvalidArgument,
                    "The threads' priority can be low, normal or high, not '" + name + "'.");
}

}  // namespace

std::vector<std::string> kv_cache_dtypes() {
  return {kv_dtype_names().begin(), kv_dtype_names().end()};
}

std::string requested_isa() {
  const char* isa = std::getenv("QUIRE_CPU_ISA");
  return isa == nullptr ? "" : isa;
}

Result<std::unique_ptr<Backend>> make_backend(const LoadOptions& options) {
  if (options.backend == "reference") return make_reference_backend();
  if (options.backend != "cpu") {
    return make_error(ErrorCode::kInvalidArgument,
                      "There is no backend '" + options.backend + "'; choose cpu or reference.");
  }
  std::string error;
  BackendOptions backend_options;
  backend_options.num_threads = options.num_threads;
  backend_options.isa = requested_isa();
  QUIRE_TRY(backend_options.cpu_pin, cpu_pin_of(options.cpu_pin));
  QUIRE_TRY(backend_options.cpu_priority, cpu_priority_of(options.cpu_priority));
  const std::optional<KvDType> kv_dtype = kv_dtype_of(options.kv_cache_dtype);
  if (!kv_dtype)
    return make_error(ErrorCode::kInvalidArgument, "The KV cache can be kept as " +
                                                       kv_dtype_choices() + ", not as '" +
                                                       options.kv_cache_dtype + "'.");
  backend_options.kv_dtype = *kv_dtype;
  std::unique_ptr<Backend> backend = make_cpu_backend(backend_options, error);
  if (!backend) return make_error(ErrorCode::kInvalidArgument, error);
  return backend;
}

std::string describe_memory(const MemoryUse& use) {
  const auto text = [](std::size_t bytes) { return readable_bytes(static_cast<double>(bytes)); };
  return "weights " + text(use.weights) + ", KV pool " + text(use.kv_pool) + ", buffers " +
         text(use.buffers) + ", program " + text(use.program) + ": " + text(use.estimate()) +
         " estimated, " + text(use.resident) + " resident";
}

std::shared_ptr<ModelHost> ModelHost::create() {
  return std::make_shared<Host>();
}

}  // namespace quire
