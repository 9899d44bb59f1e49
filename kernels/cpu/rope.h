#pragma once

#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/storage.h"

namespace quire::cpu {

// Head norms, rotation and the write of K and V. The cosines of a step's positions are computed
// once and shared by its layers.
class Rope {
 public:
  Rope(const KernelTable& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  void begin_step() { num_tables_ = 0; }
  void run(const BatchView& batch, CpuBuffer& qkv, const QkvShape& shape, const float* q_norm,
           const float* k_norm, float eps, const RopeParams& rope, CpuKvPool& cache, int layer);

 private:
  struct Table {
    RopeParams rope;
    std::vector<float> cosines, sines;  // [num_tokens, rotary_dim / 2], scaled
  };

  const Table& table_of(const BatchView& batch, const RopeParams& rope);

  const KernelTable& kernels_;
  ThreadPool& pool_;
  std::vector<Table> tables_;  // the first num_tables_ are this step's
  int num_tables_ = 0;
};

}  // namespace quire::cpu
