#pragma once

#include <numeric>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cpu/memory.h"

namespace quire::cpu {

// K and V of every layer, as [layer][KV head][block] and in each
//   keys    [block_size / run][head_dim][run]   run = gcd(block_size, 16) positions side by side
//           [block_size / run][scales][run]     float32, kInt8 only
//   values  [block_size][head_dim]
//           [block_size][scales]                float32, kInt8 only
// so that neighbouring blocks of a request are one stream for a head's attention, and a tile of 16
// keys is one piece when the block size is a multiple of 16. Padding rows are not written at all,
// so there is no scratch block.
class CpuKvPool final : public KvPool {
 public:
  CpuKvPool(const KvSpec& spec, int num_blocks, int block_size, KvDType dtype);

  int num_blocks() const override { return num_blocks_; }
  int block_size() const override { return block_size_; }
  std::size_t bytes_per_block() const override { return bytes_per_block_; }
  void read_block(int block, std::span<std::byte> target) const override;
  void write_block(int block, std::span<const std::byte> source) override;
  void copy_block(int source, int target) override;
  void poison() override;

  void populate(ThreadPool& pool) { data_.populate(pool); }
  KvDType dtype() const { return dtype_; }
  int run() const { return std::gcd(block_size_, 16); }
  const KvLayerSpec& layer(int index) const { return spec_.layers[index]; }

  // Rounds to the pool's type and stores one token's key and value, head_dim floats each.
  void write(int layer, std::int64_t slot, int kv_head, const float* key, const float* value);
  // Where the keys and values of a block's KV head start.
  const std::uint8_t* keys(int layer, int block, int kv_head) const {
    return plane(layer, block, kv_head);
  }
  const std::uint8_t* values(int layer, int block, int kv_head) const {
    return plane(layer, block, kv_head) + plane_bytes(layer);
  }
  // Bytes from the start of a block's keys, or values, to their scales.
  std::size_t scales_at(int layer) const {
    const std::size_t elements =
        static_cast<std::size_t>(block_size_) * spec_.layers[layer].head_dim * element_;
    return dtype_ == KvDType::kInt8 ? (elements + 3) / 4 * 4 : elements;
  }
  int num_scales(int layer) const { return kv_num_scales(dtype_, spec_.layers[layer].head_dim); }

 private:
  // Bytes of K, or V, of one KV head in one block.
  std::size_t plane_bytes(int layer) const {
    return scales_at(layer) + sizeof(float) * num_scales(layer) * block_size_;
  }
  std::size_t layer_block_bytes(int layer) const {
    return plane_bytes(layer) * 2 * spec_.layers[layer].num_kv_heads;
  }
  const std::uint8_t* plane(int layer, int block, int kv_head) const {
    return data_.data() + layer_offsets_[layer] +
           (static_cast<std::size_t>(kv_head) * num_blocks_ + block) * 2 * plane_bytes(layer);
  }
  std::uint8_t* plane(int layer, int block, int kv_head) {
    return const_cast<std::uint8_t*>(std::as_const(*this).plane(layer, block, kv_head));
  }
  // Calls f(piece, bytes) for every piece of a block, in the order of its opaque contents.
  template <typename F>
  void for_each_piece(int block, const F& f) const {
    for (int i = 0; i < static_cast<int>(spec_.layers.size()); ++i)
      for (int head = 0; head < spec_.layers[i].num_kv_heads; ++head)
        f(plane(i, block, head), 2 * plane_bytes(i));
  }
  template <typename Element, typename Round>
  void write_as(std::uint8_t* plane, int layer, int offset, const float* key, const float* value,
                Round round);
  void write_int8(std::uint8_t* plane, int layer, int offset, const float* key, const float* value);

  KvSpec spec_;
  int num_blocks_ = 0, block_size_ = 0;
  KvDType dtype_;
  std::size_t element_ = 0;  // bytes
  std::size_t bytes_per_block_ = 0;
  std::vector<std::size_t> layer_offsets_;  // into data_
  AlignedBytes data_;
};

std::size_t kv_block_bytes(const KvSpec& spec, int block_size, KvDType dtype);

}  // namespace quire::cpu
