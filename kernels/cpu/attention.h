#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_table.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/storage.h"

namespace quire::cpu {

// Paged causal attention over the thread pool. Keys are reduced in spans of 128 absolute positions,
// each on its own, and the spans of a row are merged in ascending order. That order is a row's
// whatever the chunk it came in; who computes a span, alone or together with other requests' rows,
// follows from the plan and changes no result.
class Attention {
 public:
  // `cascade`: blocks that several requests share are read once a step.
  Attention(const AttentionKernels& kernels, ThreadPool& pool, bool cascade)
      : kernels_(kernels), pool_(pool), cascade_(cascade) {}

  void begin_step() { num_plans_ = 0; }
  void run(const BatchView& batch, const CpuBuffer& qkv, const QkvShape& shape, float scale,
           const CpuKvPool& cache, int layer, CpuBuffer& out);

 private:
  using Plan = AttentionPlan;
  struct Call;     // the arguments of run() and what follows from them
  struct Scratch;  // one thread's

  const Plan& plan_of(const BatchView& batch, const AttentionKind& kind, int block_size);
  void run_item(const Call& call, const Plan::Item& item, int kv_head, Scratch& scratch);
  bool span(const Call& call, const Plan::Item& item, int kv_head, int index, Scratch& scratch,
            int& first_query, int& end_query) const;
  void find_tiles(const Call& call, const std::int32_t* blocks, int kv_head, int index, int begin,
                  int end, Scratch& scratch) const;
  std::span<const std::uint8_t* const> keys_ahead(const Call& call, const Plan::Item& item,
                                                  int kv_head, int index, Scratch& scratch) const;
  void load_queries(const Call& call, const Plan::Item& item, int kv_head, Scratch& scratch) const;
  void merge(const Call& call, int first_row, const float* out, const float* largest,
             const float* total, Scratch& scratch) const;
  void finish_split(const Call& call, const Plan::Query& query, int kv_head, int first_row,
                    Scratch& scratch) const;
  void finish(const Call& call, const Plan::Query& query, int kv_head, int first_row,
              const Scratch& scratch) const;

  const AttentionKernels& kernels_;
  ThreadPool& pool_;
  bool cascade_;
  std::vector<Plan> plans_;  // the first num_plans_ are this step's
  int num_plans_ = 0;
  std::vector<std::atomic<int>> remaining_;  // items, per split query and KV head
  AlignedBytes partials_, scratch_;
};

}  // namespace quire::cpu
