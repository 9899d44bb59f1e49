#include "kernels/cpu/kv_pool.h"

#include <cstring>

#include "kernels/check.h"

namespace quire::cpu {

namespace {

// What is too large for a half becomes the largest one: an infinity would spoil every later token.
std::uint16_t to_finite_half(float x) {
  constexpr float kLargest = 65504.0f;
  return float_to_half(x > kLargest ? kLargest : x < -kLargest ? -kLargest : x);
}

}  // namespace

std::size_t kv_block_bytes(const KvSpec& spec, int block_size, DType dtype) {
  std::size_t elements = 0;
  for (const KvLayerSpec& layer : spec.layers)
    elements += std::size_t{2} * layer.num_kv_heads * layer.head_dim * block_size;
  return elements * dtype_info(dtype).block_bytes;
}

CpuKvPool::CpuKvPool(const KvSpec& spec, int num_blocks, int block_size, DType dtype)
    : spec_(spec),
      num_blocks_(num_blocks),
      block_size_(block_size),
      dtype_(dtype),
      element_(dtype_info(dtype).block_bytes),
      bytes_per_block_(kv_block_bytes(spec, block_size, dtype)) {
  QUIRE_CHECK(dtype == DType::kBF16 || dtype == DType::kF16 || dtype == DType::kF32,
              dtype_info(dtype).name);
  QUIRE_CHECK(num_blocks > 0 && block_size > 0, num_blocks, block_size);
  std::size_t bytes = 0;
  for (int i = 0; i < static_cast<int>(spec.layers.size()); ++i) {
    layer_offsets_.push_back(bytes);
    bytes += (layer_block_bytes(i) * num_blocks + 63) / 64 * 64;
  }
  data_ = AlignedBytes(bytes);
}

void CpuKvPool::read_block(int block, std::span<std::byte> target) const {
  QUIRE_CHECK(block >= 0 && block < num_blocks_ && target.size() == bytes_per_block_, block);
  std::byte* out = target.data();
  for_each_piece(block, [&out](const std::uint8_t* piece, std::size_t bytes) {
    std::memcpy(out, piece, bytes);
    out += bytes;
  });
}

void CpuKvPool::write_block(int block, std::span<const std::byte> source) {
  QUIRE_CHECK(block >= 0 && block < num_blocks_ && source.size() == bytes_per_block_, block);
  const std::byte* in = source.data();
  for_each_piece(block, [&in](const std::uint8_t* piece, std::size_t bytes) {
    std::memcpy(const_cast<std::uint8_t*>(piece), in, bytes);
    in += bytes;
  });
}

void CpuKvPool::copy_block(int source, int target) {
  QUIRE_CHECK(source >= 0 && source < num_blocks_ && target >= 0 && target < num_blocks_, source,
              target);
  for (int i = 0; i < static_cast<int>(spec_.layers.size()); ++i)
    for (int head = 0; head < spec_.layers[i].num_kv_heads; ++head)
      std::memmove(plane(i, target, head), plane(i, source, head), 2 * plane_bytes(i));
}

// All bits set is NaN in every type.
void CpuKvPool::poison() {
  std::memset(data_.data(), 0xff, data_.size());
}

template <typename Element, typename Round>
void CpuKvPool::write_as(std::uint8_t* plane, int layer, int offset, const float* key,
                         const float* value, Round round) {
  const int head_dim = spec_.layers[layer].head_dim, width = run();
  auto* keys =
      reinterpret_cast<Element*>(plane) + offset / width * head_dim * width + offset % width;
  auto* values = reinterpret_cast<Element*>(plane + plane_bytes(layer)) + offset * head_dim;
  for (int d = 0; d < head_dim; ++d) keys[d * width] = round(key[d]);
  for (int d = 0; d < head_dim; ++d) values[d] = round(value[d]);
}

void CpuKvPool::write(int layer, std::int64_t slot, int kv_head, const float* key,
                      const float* value) {
  QUIRE_CHECK(slot >= 0 && slot / block_size_ < num_blocks_, slot, num_blocks_, block_size_);
  const int block = static_cast<int>(slot / block_size_);
  const int offset = static_cast<int>(slot % block_size_);
  std::uint8_t* target = plane(layer, block, kv_head);
  if (dtype_ == DType::kBF16)
    write_as<std::uint16_t>(target, layer, offset, key, value, float_to_bf16);
  else if (dtype_ == DType::kF16)
    write_as<std::uint16_t>(target, layer, offset, key, value, to_finite_half);
  else
    write_as<float>(target, layer, offset, key, value, [](float x) { return x; });
}

}  // namespace quire::cpu
