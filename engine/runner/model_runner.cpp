#include "engine/runner/model_runner.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <string>

#include "engine/runner/host_blocks.h"
#include "engine/sampling/sampler.h"

namespace quire {
namespace {

using SteadyClock = std::chrono::steady_clock;

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

// Bytes moved to measure the speed of swapping: more than a cache holds, moved in milliseconds.
constexpr std::size_t kSwapProbeBytes = 16 << 20;

class FlatModelRunner : public ModelRunner {
 public:
  FlatModelRunner(FlatModel& model, std::unique_ptr<KvPool> pool, HostBlocks host)
      : model_(model), pool_(std::move(pool)), host_(std::move(host)) {
    swap_us_per_block_ = measure_swap();
  }

  double move_blocks(std::span<const BlockMove> moves) override {
    const auto start = SteadyClock::now();
    for (const BlockMove& move : moves) this->move(move);
    return microseconds_since(start);
  }

  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override {
    QUIRE_CHECK(rows.size() == batch.logits_indices.size(), rows.size(),
                batch.logits_indices.size());
    result_ = {};
    try {
      const auto start = SteadyClock::now();
      const BatchView view = prepare(batch);
      place(rows);
      result_.prepare_us = microseconds_since(start);
      const auto forward_start = SteadyClock::now();
      result_.cancelled =
          !model_.forward(view, *pool_, {batch.logits_indices, places_, largest_}, cancel);
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
  int num_swap_blocks() const override { return host_.num_blocks(); }
  double swap_us_per_block() const override { return swap_us_per_block_; }
  void keep_all_logits() override { keep_all_ = true; }
  std::span<const float> last_logits() const override { return logits_; }

 private:
  void move(const BlockMove& move) {
    switch (move.kind) {
      case MoveKind::kCopy:
        pool_->copy_block(move.source, move.target);
        break;
      case MoveKind::kSwapOut:
        pool_->read_block(move.source, host_.block(move.target));
        break;
      case MoveKind::kSwapIn:
        pool_->write_block(move.target, host_.block(move.source));
        break;
    }
  }

  // Both pools are still zero, so blocks may be moved without changing anything. The first round
  // is not counted: it is the one that gets the pages.
  double measure_swap() {
    constexpr int kRounds = 4;
    const std::size_t fits = kSwapProbeBytes / std::max<std::size_t>(1, pool_->bytes_per_block());
    const int n = std::min({host_.num_blocks(), pool_->num_blocks(),
                            static_cast<int>(std::clamp<std::size_t>(fits, 1, 64))});
    if (n == 0) return 0;
    double best_us = std::numeric_limits<double>::max();
    for (int round = 0; round < kRounds; ++round) {
      const auto start = SteadyClock::now();
      for (int i = 0; i < n; ++i) move({MoveKind::kSwapIn, i, i});
      for (int i = 0; i < n; ++i) move({MoveKind::kSwapOut, i, i});
      if (round > 0) best_us = std::min(best_us, microseconds_since(start));
    }
    return best_us / (2 * n);
  }

  BatchView prepare(const Batch& batch) {
    model_.reserve(batch.num_tokens());  // padding rows may exceed the token budget
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

  // Which rows need all of their logits, and where those go.
  void place(std::span<const SamplingRow> rows) {
    const auto vocab = static_cast<std::size_t>(vocab_size());
    const auto needs_all = [this](const SamplingRow& row) {
      return keep_all_ || !takes_largest(row);
    };
    logits_.resize(static_cast<std::size_t>(std::ranges::count_if(rows, needs_all)) * vocab);
    largest_.resize(rows.size());
    places_.clear();
    float* next = logits_.data();
    for (const SamplingRow& row : rows) {
      places_.push_back(needs_all(row) ? next : nullptr);
      if (places_.back()) next += vocab;
    }
  }

  void sample(std::span<const SamplingRow> rows) {
    const auto start = SteadyClock::now();
    const auto vocab = static_cast<std::size_t>(vocab_size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      result_.rows.push_back(places_[i] ? sample_row({places_[i], vocab}, rows[i])
                                        : sample_largest(largest_[i]));
    result_.sample_us = microseconds_since(start);
  }

  FlatModel& model_;
  std::unique_ptr<KvPool> pool_;
  HostBlocks host_;
  double swap_us_per_block_ = 0;
  bool keep_all_ = false;
  std::vector<float> logits_;          // [rows that need them, vocab]
  std::vector<float*> places_;         // per sampled row, into logits_, or null
  std::vector<LargestLogit> largest_;  // per sampled row
  StepResult result_;
  Handle handle_ = 0;
};

std::string mebibytes(double bytes) {
  return std::to_string(static_cast<long long>(bytes / (1 << 20)) + 1) + " MiB";
}

// `bytes`: of both pools.
Error out_of_memory(int num_blocks, int num_swap_blocks, int block_size, double bytes) {
  std::string sentence = "There is not enough memory for a KV cache of " +
                         std::to_string(num_blocks) + " blocks of " + std::to_string(block_size) +
                         " tokens";
  if (num_swap_blocks > 0)
    sentence += " and " + std::to_string(num_swap_blocks) + " more to swap to";
  return make_error(ErrorCode::kOutOfMemory,
                    sentence + " (" + mebibytes(bytes) + "); ask for fewer blocks.");
}

// Linux grants memory it does not have, so a pool beyond the machine is refused before it is asked
// for.
double physical_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(FlatModel& model, int num_blocks,
                                                         int block_size, int max_num_batched_tokens,
                                                         int num_swap_blocks) {
  if (num_blocks < 1 || block_size < 1 || max_num_batched_tokens < 1)
    return make_error(ErrorCode::kInvalidArgument,
                      "The KV cache needs at least one block of one token, and a step at least one "
                      "token.");
  if (num_swap_blocks < 0)
    return make_error(ErrorCode::kInvalidArgument,
                      "The number of blocks to swap to cannot be negative.");
  const KvSpec spec = model.config().kv_spec();
  Backend& backend = model.backend();
  const std::size_t bytes_per_block = backend.kv_bytes_per_block(spec, block_size);
  const double bytes = (static_cast<double>(num_blocks) + 1 + num_swap_blocks) *
                       static_cast<double>(bytes_per_block);
  const Error refusal = out_of_memory(num_blocks, num_swap_blocks, block_size, bytes);
  if (bytes > physical_memory_bytes()) return refusal;
  try {
    auto pool = backend.allocate_kv(spec, num_blocks, block_size);
    model.reserve(max_num_batched_tokens);
    HostBlocks host(num_swap_blocks, bytes_per_block);
    return std::unique_ptr<ModelRunner>(
        new FlatModelRunner(model, std::move(pool), std::move(host)));
  } catch (const std::bad_alloc&) {
    return refusal;
  }
}

}  // namespace quire
