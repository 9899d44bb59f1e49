#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/check.h"
#include "kernels/reference/math.h"

namespace quire::reference {
namespace {

std::int64_t slot_of(const Context& context, std::int64_t position, const ReferenceKvPool& pool) {
  const std::int32_t block = context.blocks[position / pool.block_size()];
  QUIRE_CHECK(block >= 0 && block < pool.num_blocks(), block, pool.num_blocks());
  return static_cast<std::int64_t>(block) * pool.block_size() + position % pool.block_size();
}

}  // namespace

void attend_head(const float* query, const Context& context, float scale,
                 const ReferenceKvPool& pool, int layer, int kv_head, float* out) {
  const int head_dim = pool.layer(layer).head_dim;
  std::fill_n(out, head_dim, 0.0f);
  if (context.end <= context.begin) return;

  std::vector<float> weights;
  weights.reserve(context.end - context.begin);
  for (std::int64_t p = context.begin; p < context.end; ++p)
    weights.push_back(scale *
                      dot(query, pool.key(layer, slot_of(context, p, pool), kv_head), head_dim));

  const float largest = *std::ranges::max_element(weights);
  float total = 0.0f;
  for (float& weight : weights) total += weight = std::exp(weight - largest);

  for (std::int64_t p = context.begin; p < context.end; ++p) {
    const float* value = pool.value(layer, slot_of(context, p, pool), kv_head);
    for (int i = 0; i < head_dim; ++i) out[i] += weights[p - context.begin] * value[i];
  }
  for (int i = 0; i < head_dim; ++i) out[i] /= total;
}

}  // namespace quire::reference
