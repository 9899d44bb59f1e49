#include "kernels/reference/storage.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace quire::reference {

ReferenceMatrix::ReferenceMatrix(std::span<const MatrixView> parts) {
  QUIRE_CHECK(!parts.empty());
  cols_ = parts.front().cols;
  for (const MatrixView& part : parts) {
    QUIRE_CHECK(part.cols == cols_ && part.rows >= 0, part.cols, cols_, part.rows);
    rows_ += part.rows;
  }
  values_.resize(static_cast<std::size_t>(rows_ * cols_));
  float* target = values_.data();
  for (const MatrixView& part : parts) {
    const auto* source = static_cast<const std::byte*>(part.data);
    for (std::int64_t row = 0; row < part.rows; ++row) {
      dequantize(part.dtype, source, target, cols_);
      source += row_bytes(part.dtype, cols_);
      target += cols_;
    }
  }
}

ReferenceBuffer::ReferenceBuffer(int max_rows, int width)
    : max_rows_(max_rows), width_(width), values_(static_cast<std::size_t>(max_rows) * width) {}

std::size_t kv_block_bytes(const KvSpec& spec, int block_size) {
  std::size_t floats = 0;
  for (const KvLayerSpec& layer : spec.layers)
    floats += std::size_t{2} * layer.num_kv_heads * layer.head_dim * block_size;
  return floats * sizeof(float);
}

ReferenceKvPool::ReferenceKvPool(const KvSpec& spec, int num_blocks, int block_size)
    : spec_(spec),
      num_blocks_(num_blocks),
      block_size_(block_size),
      bytes_per_block_(kv_block_bytes(spec, block_size)) {
  const std::size_t slots = (static_cast<std::size_t>(num_blocks) + 1) * block_size;
  for (int i = 0; i < static_cast<int>(spec.layers.size()); ++i)
    layers_.emplace_back(slots * slot_width(i));
}

std::size_t ReferenceKvPool::slot_width(int layer) const {
  const KvLayerSpec& shape = spec_.layers[layer];
  return std::size_t{2} * shape.num_kv_heads * shape.head_dim;
}

void ReferenceKvPool::read_block(int block, std::span<std::byte> target) const {
  QUIRE_CHECK(block >= 0 && block < num_blocks_ && target.size() == bytes_per_block_, block);
  std::byte* out = target.data();
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    const std::size_t floats = slot_width(i) * block_size_;
    std::memcpy(out, layers_[i].data() + block * floats, floats * sizeof(float));
    out += floats * sizeof(float);
  }
}

void ReferenceKvPool::write_block(int block, std::span<const std::byte> source) {
  QUIRE_CHECK(block >= 0 && block < num_blocks_ && source.size() == bytes_per_block_, block);
  const std::byte* in = source.data();
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    const std::size_t floats = slot_width(i) * block_size_;
    std::memcpy(layers_[i].data() + block * floats, in, floats * sizeof(float));
    in += floats * sizeof(float);
  }
}

void ReferenceKvPool::copy_block(int source, int target) {
  QUIRE_CHECK(source >= 0 && source < num_blocks_ && target >= 0 && target < num_blocks_, source,
              target);
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    const std::size_t floats = slot_width(i) * block_size_;
    std::memmove(layers_[i].data() + target * floats, layers_[i].data() + source * floats,
                 floats * sizeof(float));
  }
}

void ReferenceKvPool::poison() {
  for (std::vector<float>& layer : layers_)
    std::ranges::fill(layer, std::numeric_limits<float>::quiet_NaN());
}

std::size_t ReferenceKvPool::offset(int layer, std::int64_t slot, int plane, int kv_head) const {
  const std::int64_t scratch = static_cast<std::int64_t>(num_blocks_) * block_size_;
  QUIRE_CHECK(slot >= -1 && slot < scratch, slot, scratch);
  const KvLayerSpec& shape = spec_.layers[layer];
  const std::size_t index = slot < 0 ? scratch : slot;
  return ((index * 2 + plane) * shape.num_kv_heads + kv_head) * shape.head_dim;
}

float* ReferenceKvPool::key(int layer, std::int64_t slot, int kv_head) {
  return layers_[layer].data() + offset(layer, slot, 0, kv_head);
}

float* ReferenceKvPool::value(int layer, std::int64_t slot, int kv_head) {
  return layers_[layer].data() + offset(layer, slot, 1, kv_head);
}

const float* ReferenceKvPool::key(int layer, std::int64_t slot, int kv_head) const {
  return layers_[layer].data() + offset(layer, slot, 0, kv_head);
}

const float* ReferenceKvPool::value(int layer, std::int64_t slot, int kv_head) const {
  return layers_[layer].data() + offset(layer, slot, 1, kv_head);
}

}  // namespace quire::reference
