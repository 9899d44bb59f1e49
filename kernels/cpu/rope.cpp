#include "kernels/cpu/rope.h"

#include <cmath>

#include "kernels/check.h"

namespace quire::cpu {
namespace {

constexpr int kSerialTokens = 4;

void rotate_pair(float& first, float& second, float cosine, float sine) {
  const float a = first, b = second;
  first = a * cosine - b * sine;
  second = b * cosine + a * sine;
}

void rotate(float* head, const float* cosines, const float* sines, int half, bool interleaved) {
  if (interleaved)
    for (int i = 0; i < half; ++i) rotate_pair(head[2 * i], head[2 * i + 1], cosines[i], sines[i]);
  else
    for (int i = 0; i < half; ++i) rotate_pair(head[i], head[i + half], cosines[i], sines[i]);
}

bool same_rotation(const RopeParams& a, const RopeParams& b) {
  return a.inv_freq == b.inv_freq && a.scale == b.scale && a.rotary_dim == b.rotary_dim;
}

template <typename Body>
void for_each_token(ThreadPool& pool, int num_tokens, const Body& body) {
  if (num_tokens > kSerialTokens)
    pool.run(num_tokens, [&body](int token, int) { body(token); });
  else
    for (int token = 0; token < num_tokens; ++token) body(token);
}

}  // namespace

const Rope::Table& Rope::table_of(const BatchView& batch, const RopeParams& rope) {
  for (int i = 0; i < num_tables_; ++i)
    if (same_rotation(tables_[i].rope, rope)) return tables_[i];
  if (num_tables_ == static_cast<int>(tables_.size())) tables_.emplace_back();
  Table& table = tables_[num_tables_++];
  const int half = rope.rotary_dim / 2;
  QUIRE_CHECK(rope.inv_freq->size() >= half, rope.inv_freq->size(), half);
  table.rope = rope;
  table.cosines.resize(static_cast<std::size_t>(batch.num_tokens) * half);
  table.sines.resize(table.cosines.size());
  const float* inv_freq = host(*rope.inv_freq);
  for_each_token(pool_, batch.num_tokens, [&](int token) {
    const auto position = static_cast<float>(batch.positions[token]);
    for (int i = 0; i < half; ++i) {
      const float angle = position * inv_freq[i];
      table.cosines[token * half + i] = std::cos(angle) * rope.scale;
      table.sines[token * half + i] = std::sin(angle) * rope.scale;
    }
  });
  return table;
}

void Rope::run(const BatchView& batch, CpuBuffer& qkv, const QkvShape& shape, const float* q_norm,
               const float* k_norm, float eps, const RopeParams& rope, CpuKvPool& cache,
               int layer) {
  const int dim = shape.head_dim, half = rope.rotary_dim / 2;
  const Table* table = rope.inv_freq ? &table_of(batch, rope) : nullptr;
  for_each_token(pool_, batch.num_tokens, [&](int token) {
    float* row = qkv.row(token);
    for (int h = 0; h < shape.num_heads + shape.num_kv_heads; ++h) {
      float* head = row + h * dim;
      const float* weight = h < shape.num_heads ? q_norm : k_norm;
      if (weight) kernels_.rms_norm(head, weight, eps, dim, head);
      if (table)
        rotate(head, table->cosines.data() + token * half, table->sines.data() + token * half, half,
               rope.interleaved);
    }
    const std::int64_t slot = batch.slot_mapping[token];
    if (slot < 0) return;
    const float* k = row + shape.num_heads * dim;
    const float* v = k + shape.num_kv_heads * dim;
    for (int h = 0; h < shape.num_kv_heads; ++h)
      cache.write(layer, slot, h, k + h * dim, v + h * dim);
  });
}

}  // namespace quire::cpu
