#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/model/model.h"
#include "engine/result.h"

namespace quire {

struct HostedModel;

// Settings that take effect when a model is (re)loaded. 0 or "" = chosen for this machine.
struct LoadOptions {
  std::string backend = "cpu";  // "cpu" or "reference"
  int num_threads = 0;
  std::string cpu_pin = "none";         // of the cpu backend: "none" or "cores"
  std::string cpu_priority = "normal";  // of the cpu backend: "low", "normal" or "high"
  std::string kv_cache_dtype = "bf16";  // of the cpu backend: one of kv_cache_dtypes()
  int num_blocks = 0;                   // beats kv_cache_bytes
  std::uint64_t kv_cache_bytes = 0;     // 0: min(a quarter of free memory, 8 x context)
  int block_size = 16;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 2048;
  int max_model_len = 0;
  int max_queue = 512;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  int long_prefill_token_threshold = 0;  // these as in EngineConfig
  int max_num_partial_prefills = 0;
  std::optional<PrefillChunkPolicy> prefill_chunk;  // empty: the default pair, within the budget
  double max_itl_ms = 0;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  VictimChoice victim = VictimChoice::kLast;
  PreemptionMode preemption_mode = PreemptionMode::kRecompute;
  int num_swap_blocks = 0;  // beats swap_bytes
  // 0: none under kRecompute, else as many blocks as the KV pool within a quarter of free memory.
  std::uint64_t swap_bytes = 0;
  PrefixIndexKind prefix_index = PrefixIndexKind::kHash;
  int lpm_max_overtakes = 32;
  // Called on the host's thread with the model running and before anyone else sees it, so that a
  // reader put on the engine misses nothing. An error fails the load. May be empty.
  std::function<Status(HostedModel&)> on_started;
};

// Where a model's memory goes, in bytes. The KV pool and the buffers are taken whole when the model
// is loaded; memory to swap to is taken as it is used and not counted here.
struct MemoryUse {
  std::size_t program = 0;  // resident before the model was loaded
  std::size_t weights = 0, kv_pool = 0;
  std::size_t buffers = 0;   // activations of the largest step
  std::size_t resident = 0;  // measured once it was loaded

  std::size_t estimate() const { return program + weights + kv_pool + buffers; }
};
// "weights 93.8 MiB, KV pool 1.4 GiB, ...: 1.6 GiB estimated, 1.6 GiB resident".
std::string describe_memory(const MemoryUse& use);
// What kv_cache_dtype may be, the default first.
std::vector<std::string> kv_cache_dtypes();

// A model that is loaded and running. Shared by whoever uses it; the engine stops when the last
// user lets go.
struct HostedModel {
  std::string id;  // the name clients see: library name, file stem or "builtin:tiny"
  std::string path;
  std::string name;  // for people: the name it was chosen by
  std::string description;
  std::string backend_description;  // the CPU path in use
  std::string template_note;        // see LoadedWeights; a sentence worth showing, or ""
  std::vector<std::string> notes;   // sentences on settings that were changed to fit
  ModelConfig config;
  std::int64_t num_parameters = 0;
  MemoryUse memory;
  std::int64_t created_unix_s = 0;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;
  Engine* engine = nullptr;

  virtual ~HostedModel() = default;
};

enum class HostState : std::uint8_t { kEmpty, kLoading, kReady, kDraining, kFailed };

struct HostStatus {
  HostState state = HostState::kEmpty;
  std::string model;      // being loaded, or loaded
  LoadProgress progress;  // while loading
  std::string error;      // why the last load failed; the previous model, if any, stays usable
};

// The one owner of the loaded model: swaps it (drain, then load), refuses or queues. Window and
// server hold the host, never an Engine. Every method may be called from any thread.
class ModelHost {
 public:
  static std::shared_ptr<ModelHost> create();
  virtual ~ModelHost() = default;

  // Starts loading `path` (already resolved, see engine/library.h) on the host's thread. The
  // running model is drained first, at most `drain_timeout_s`, then replaced; if the load fails it
  // is gone and the status says why. A load in progress is cancelled and replaced.
  virtual void load(std::string path, std::string id, LoadOptions options,
                    double drain_timeout_s = 30) = 0;
  // load() and wait; for the command line.
  virtual Result<std::shared_ptr<HostedModel>> load_and_wait(
      std::string path, std::string id, LoadOptions options,
      const ProgressCallback& progress = {}) = 0;
  virtual void cancel_load() = 0;
  virtual void unload() = 0;

  virtual std::shared_ptr<HostedModel> current() const = 0;  // null unless ready
  virtual HostStatus status() const = 0;
  virtual LoadOptions options() const = 0;  // of the current or last load

  // Called on the host's thread after every change of status (progress at most ~20 times a second).
  // The returned token unsubscribes when dropped; no call is in flight once its destructor
  // returned.
  using Listener = std::function<void(const HostStatus&)>;
  virtual std::shared_ptr<void> subscribe(Listener listener) = 0;

  // Drain and stop for good.
  virtual void shutdown(double drain_timeout_s) = 0;
};

// The instruction set the environment asks for (QUIRE_CPU_ISA); empty when it does not.
std::string requested_isa();
// The backend and threads the options ask for; kInvalidArgument naming what this machine lacks.
Result<std::unique_ptr<Backend>> make_backend(const LoadOptions& options);

// Bytes a KV pool may take by default: min(a quarter of the memory free now, 8 x context), as whole
// blocks. The share is stated in --help and in the window.
inline constexpr double kDefaultKvShareOfFreeMemory = 0.25;

}  // namespace quire
