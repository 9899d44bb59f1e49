#pragma once

#include <memory>

#include "engine/core/runner.h"
#include "engine/model/model.h"

namespace quire {

// Owns the KV pool and the host pool blocks are swapped to, moves whole blocks between and within
// them, and runs batches on a FlatModel, sampling on the host; of rows that take
// the largest logit only that comes from the model. Synchronous: launch does the work.
// `model` must outlive it. Engine thread only.
class ModelRunner : public Runner {
 public:
  // kOutOfMemory (with the sizes) when the pools cannot be allocated.
  static Result<std::unique_ptr<ModelRunner>> create(FlatModel& model, int num_blocks,
                                                     int block_size, int max_num_batched_tokens,
                                                     int num_swap_blocks = 0);
  virtual KvPool& pool() = 0;
  virtual int num_swap_blocks() const = 0;
  // What swapping a block one way takes, measured at creation on memory that is in use; 0 without
  // a host pool. A first estimate: the first use of host memory costs more.
  virtual double swap_us_per_block() const = 0;
  // From the next launch on, all logits of sampled rows are made, those too that sampling does not
  // need, and last_logits() is those of the last collected step, [num_samples, vocab], valid until
  // the next launch. For tests.
  virtual void keep_all_logits() = 0;
  virtual std::span<const float> last_logits() const = 0;
};

}  // namespace quire
