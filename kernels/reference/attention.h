#pragma once

#include "kernels/reference/storage.h"

namespace quire::reference {

// The context of one query row: its request's block table and the positions [begin, end) it sees.
struct Context {
  const std::int32_t* blocks = nullptr;
  std::int64_t begin = 0, end = 0;
};

// out[head_dim] = sum of values weighted by softmax(scale * q . k) over the context. Only slots of
// positions in the context are read. An empty context gives zeros.
void attend_head(const float* query, const Context& context, float scale,
                 const ReferenceKvPool& pool, int layer, int kv_head, float* out);

}  // namespace quire::reference
