#pragma once

#include <atomic>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/storage.h"

namespace quire::cpu {

// Paged causal attention over the thread pool. Keys are reduced in spans of 128 absolute positions,
// each on its own, and the spans of a row are merged in ascending order. That order is a row's
// whatever the chunk it came in; whether one thread walks a row's spans or several threads share
// them changes who computes, not what.
class Attention {
 public:
  Attention(const KernelTable& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  void run(const BatchView& batch, const CpuBuffer& qkv, const QkvShape& shape, float scale,
           const CpuKvPool& cache, int layer, CpuBuffer& out);

 private:
  // Some consecutive queries of one request, one KV head and its whole group of query heads.
  struct Work {
    const std::int32_t* blocks = nullptr;  // of the request
    int kv_head = 0;
    int first_row = 0, queries = 0;  // in the batch
    int position = 0;                // of the first query
    int span_begin = 0, span_end = 0;
    int split = -1;  // index into splits_ when other items hold the other spans
  };
  // A row whose spans are spread over items; the item that finishes last merges them.
  struct Split {
    std::size_t partials = 0;  // index of the first span's in partials_
    int spans = 0, first_span = 0;
  };
  struct Call;     // the arguments of run() and what follows from them
  struct Scratch;  // one thread's

  void plan(const Call& call);
  void plan_request(const Call& call, int request, bool split_spans);
  void run_whole(const Call& call, const Work& work, Scratch& scratch) const;
  void run_split(const Call& call, const Work& work, Scratch& scratch);
  bool span(const Call& call, const Work& work, int index, Scratch& scratch, int& first_query,
            int& end_query) const;
  void expand(const Call& call, const Work& work, int index, int begin, int end,
              Scratch& scratch) const;
  void load_queries(const Call& call, const Work& work, Scratch& scratch) const;
  void merge_split(const Call& call, const Work& work, Scratch& scratch) const;
  void finish(const Call& call, const Work& work, const Scratch& scratch) const;

  const KernelTable& kernels_;
  ThreadPool& pool_;
  std::vector<Work> work_;
  std::vector<Split> splits_;
  std::vector<std::atomic<int>> remaining_;  // per split
  AlignedBytes partials_, scratch_;
};

}  // namespace quire::cpu
