#pragma once

#include <memory>

#include "engine/core/runner.h"
#include "engine/model/model.h"

namespace quire {

// Owns the KV pool and runs batches on a FlatModel, sampling on the host. Synchronous: launch does
// the work. `model` must outlive it. Engine thread only.
class ModelRunner : public Runner {
 public:
  // kOutOfMemory (with the sizes) when the pool cannot be allocated.
  static Result<std::unique_ptr<ModelRunner>> create(FlatModel& model, int num_blocks,
                                                     int block_size, int max_num_batched_tokens);
  virtual KvPool& pool() = 0;
  // Logits of the last collected step, [num_samples, vocab]; valid until the next launch. For
  // tests.
  virtual std::span<const float> last_logits() const = 0;
};

}  // namespace quire
