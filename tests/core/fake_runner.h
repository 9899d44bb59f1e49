#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/core/engine_core.h"

namespace quire::test {

// What a slot of the fake pool holds: a digest of its token and of everything read before it, as
// the deeper layers of a real model hold.
inline constexpr std::uint64_t kPoison = 0;

// A model whose next token is a pure function of the whole prefix as read back from the KV pool
// through slot_mapping and block_table, so a wrong slot, a stale block or a wrong
// num_computed_tokens changes the answer. Reading a slot nobody wrote is counted.
class FakeRunner : public Runner {
 public:
  enum class Fate { kRun, kCancel, kFail };

  FakeRunner(int num_blocks, int block_size, int vocab_size = 101, int num_swap_blocks = 0);

  double move_blocks(std::span<const BlockMove> moves) override;

  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override;
  StepResult collect(Handle handle) override;
  int vocab_size() const override { return vocab_size_; }

  // Fills a block with poison, as if it had never been written.
  void poison(BlockId block);

  std::function<Fate(const Batch&)> fate;  // asked once per launch; absent: kRun
  std::function<bool()> moves_fail;        // asked once per move_blocks; absent: never
  int poisoned_reads = 0;
  int launches = 0;
  int moves = 0;
  Batch last_batch;

 private:
  std::uint64_t compute_row(const Batch& batch, int request, int row);
  void spoil(const Batch& batch);

  int block_size_, vocab_size_;
  std::vector<std::uint64_t> host_;  // [num_swap_blocks * block_size]
  std::vector<std::uint64_t> pool_;  // [(num_blocks + 1) * block_size], the last block is scratch
  StepResult result_;
};

// The same model without a pool: how a request just added is answered when it runs alone.
std::vector<TokenId> answer_alone(const Request& request, int vocab_size, int effective_context);

}  // namespace quire::test
