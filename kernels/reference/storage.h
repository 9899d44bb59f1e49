#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"

// What the reference backend keeps: everything is float32, row-major, in ordinary memory.
namespace quire::reference {

class ReferenceMatrix final : public Matrix {
 public:
  // Decodes every part; the views are not kept.
  explicit ReferenceMatrix(std::span<const MatrixView> parts);

  std::int64_t rows() const override { return rows_; }
  std::int64_t cols() const override { return cols_; }
  std::size_t bytes() const override { return values_.size() * sizeof(float); }
  const float* row(std::int64_t index) const { return values_.data() + index * cols_; }

 private:
  std::int64_t rows_ = 0, cols_ = 0;
  std::vector<float> values_;  // [rows, cols]
};

class ReferenceVector final : public Vector {
 public:
  explicit ReferenceVector(std::span<const float> values) : values_(values.begin(), values.end()) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(values_.size()); }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

class ReferenceBuffer final : public Buffer {
 public:
  ReferenceBuffer(int max_rows, int width);
  int max_rows() const override { return max_rows_; }
  int width() const override { return width_; }
  float* row(int index) { return values_.data() + static_cast<std::size_t>(index) * width_; }
  const float* row(int index) const {
    return values_.data() + static_cast<std::size_t>(index) * width_;
  }

 private:
  int max_rows_ = 0, width_ = 0;
  std::vector<float> values_;  // [max_rows, width]
};

// Per layer one array [slots, 2, num_kv_heads, head_dim], K before V; the scratch block's slots
// come last. A block's opaque contents are its slots of layer 0, then of layer 1, and so on.
class ReferenceKvPool final : public KvPool {
 public:
  ReferenceKvPool(const KvSpec& spec, int num_blocks, int block_size);

  int num_blocks() const override { return num_blocks_; }
  int block_size() const override { return block_size_; }
  std::size_t bytes_per_block() const override { return bytes_per_block_; }
  void read_block(int block, std::span<std::byte> target) const override;
  void write_block(int block, std::span<const std::byte> source) override;
  void copy_block(int source, int target) override;
  void poison() override;

  const KvLayerSpec& layer(int index) const { return spec_.layers[index]; }
  // slot -1 is the first slot of the scratch block.
  float* key(int layer, std::int64_t slot, int kv_head);
  float* value(int layer, std::int64_t slot, int kv_head);
  const float* key(int layer, std::int64_t slot, int kv_head) const;
  const float* value(int layer, std::int64_t slot, int kv_head) const;

 private:
  std::size_t slot_width(int layer) const;  // floats
  std::size_t offset(int layer, std::int64_t slot, int plane, int kv_head) const;

  KvSpec spec_;
  int num_blocks_ = 0, block_size_ = 0;
  std::size_t bytes_per_block_ = 0;
  std::vector<std::vector<float>> layers_;
};

std::size_t kv_block_bytes(const KvSpec& spec, int block_size);

}  // namespace quire::reference
