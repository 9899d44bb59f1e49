#include "engine/runner/model_runner.h"

#include <unistd.h>

#include <chrono>
#include <new>
#include <string>

#include "engine/sampling/sampler.h"

namespace quire {
namespace {

using SteadyClock = std::chrono::steady_clock;

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

class FlatModelRunner : public ModelRunner {
 public:
  FlatModelRunner(FlatModel& model, std::unique_ptr<KvPool> pool)
      : model_(model), pool_(std::move(pool)) {}

  double move_blocks(std::span<const BlockMove>) override { return 0; }
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override {
    QUIRE_CHECK(rows.size() == batch.logits_indices.size(), rows.size(),
                batch.logits_indices.size());
    result_ = {};
    try {
      const auto start = SteadyClock::now();
      const BatchView view = prepare(batch);
      result_.prepare_us = microseconds_since(start);
      const auto forward_start = SteadyClock::now();
      result_.cancelled = !model_.forward(view, *pool_, batch.logits_indices, logits_, cancel);
      result_.forward_us = microseconds_since(forward_start);
      if (!result_.cancelled) sample(rows);
    } catch (const std::bad_alloc&) {
      throw DeviceError("The machine ran out of memory during a step.");
    }
    return ++handle_;
  }

  StepResult collect(Handle handle) override {
    QUIRE_CHECK(handle == handle_, handle, handle_);
    return std::move(result_);
  }

  int vocab_size() const override { return model_.config().vocab_size; }
  KvPool& pool() override { return *pool_; }
  std::span<const float> last_logits() const override { return logits_; }

 private:
  BatchView prepare(const Batch& batch) {
    model_.reserve(batch.num_tokens());  // padding rows may exceed the token budget
    logits_.resize(batch.logits_indices.size() * static_cast<std::size_t>(vocab_size()));
    return {.num_tokens = batch.num_tokens(),
            .num_reqs = batch.num_reqs(),
            .input_ids = batch.input_ids.data(),
            .positions = batch.positions.data(),
            .slot_mapping = batch.slot_mapping.data(),
            .query_start_loc = batch.query_start_loc.data(),
            .seq_lens = batch.seq_lens.data(),
            .block_table = batch.block_table.data(),
            .max_blocks = batch.max_blocks};
  }

  void sample(std::span<const SamplingRow> rows) {
    const auto start = SteadyClock::now();
    const auto vocab = static_cast<std::size_t>(vocab_size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      // The sampler works in place; the logits themselves stay readable until the next launch.
      row_.assign(logits_.begin() + static_cast<std::ptrdiff_t>(i * vocab),
                  logits_.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocab));
      result_.rows.push_back(sample_row(row_, rows[i]));
    }
    result_.sample_us = microseconds_since(start);
  }

  FlatModel& model_;
  std::unique_ptr<KvPool> pool_;
  std::vector<float> logits_;  // [num_samples, vocab]
  std::vector<float> row_;     // [vocab]
  StepResult result_;
  Handle handle_ = 0;
};

std::string mebibytes(double bytes) {
  return std::to_string(static_cast<long long>(bytes / (1 << 20)) + 1) + " MiB";
}

Error out_of_memory(int num_blocks, int block_size, double bytes) {
  return make_error(ErrorCode::kOutOfMemory, "There is not enough memory for a KV cache of " +
                                                 std::to_string(num_blocks) + " blocks of " +
                                                 std::to_string(block_size) + " tokens (" +
                                                 mebibytes(bytes) + "); ask for fewer blocks.");
}

// Linux grants memory it does not have, so a pool beyond the machine is refused before it is asked
// for.
double physical_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(FlatModel& model, int num_blocks,
                                                         int block_size,
                                                         int max_num_batched_tokens) {
  if (num_blocks < 1 || block_size < 1 || max_num_batched_tokens < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "The KV cache needs at least one block of one token, and a step at least one "
                      "token.");
  const KvSpec spec = model.config().kv_spec();
  Backend& backend = model.backend();
  const double bytes = (static_cast<double>(num_blocks) + 1) *
                       static_cast<double>(backend.kv_bytes_per_block(spec, block_size));
  if (bytes > physical_memory_bytes()) return out_of_memory(num_blocks, block_size, bytes);
  try {
    auto pool = backend.allocate_kv(spec, num_blocks, block_size);
    model.reserve(max_num_batched_tokens);
    return std::unique_ptr<ModelRunner>(new FlatModelRunner(model, std::move(pool)));
  } catch (const std::bad_alloc&) {
    return out_of_memory(num_blocks, block_size, bytes);
  }
}

}  // namespace quire
