#include "kernels/cpu/kv_pool.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace quire::cpu {

namespace {

// What is too large for a half becomes the largest one: an infinity would spoil every later token.
std::uint16_t to_finite_half(float x) {
  constexpr float kLargest = 65504.0f;
  return float_to_half(x > kLargest ? kLargest : x < -kLargest ? -kLargest : x);
}

// Rounds `count` values, at most kKvScaleDims, to q * scale; q[i] goes to q[i * stride]. A value
// that is not finite makes the scale NaN, so the damage shows in what reads it.
float quantise(const float* x, int count, std::int8_t* q, int stride) {
  float largest = 0.0f;
  bool finite = true;
  for (int i = 0; i < count; ++i) {
    const float magnitude = std::abs(x[i]);
    finite = finite && magnitude <= std::numeric_limits<float>::max();
    largest = std::max(largest, magnitude);
  }
  if (!finite || largest < 1e-30f) {
    for (int i = 0; i < count; ++i) q[i * stride] = 0;
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float inverse = 127.0f / largest;
  for (int i = 0; i < count; ++i) {
    const float shifted = x[i] * inverse + kMagic;
    q[i * stride] = static_cast<std::int8_t>(std::bit_cast<std::int32_t>(shifted) - 0x4b400000);
  }
  return largest / 127.0f;
}

}  // namespace

std::size_t kv_block_bytes(const KvSpec& spec, int block_size, KvDType dtype) {
  std::size_t bytes = 0;
  for (const KvLayerSpec& layer : spec.layers) {
    const std::size_t elements =
        static_cast<std::size_t>(block_size) * layer.head_dim * kv_element_bytes(dtype);
    const std::size_t aligned = dtype == KvDType::kInt8 ? (elements + 3) / 4 * 4 : elements;
    const std::size_t scales = kv_num_scales(dtype, layer.head_dim) * sizeof(float) * block_size;
    bytes += 2 * layer.num_kv_heads * (aligned + scales);
  }
  return bytes;
}

CpuKvPool::CpuKvPool(const KvSpec& spec, int num_blocks, int block_size, KvDType dtype)
    : spec_(spec),
      num_blocks_(num_blocks),
      block_size_(block_size),
      dtype_(dtype),
      element_(kv_element_bytes(dtype)),
      bytes_per_block_(kv_block_bytes(spec, block_size, dtype)) {
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

void CpuKvPool::write_int8(std::uint8_t* plane, int layer, int offset, const float* key,
                           const float* value) {
  const int head_dim = spec_.layers[layer].head_dim, width = run(), scales = num_scales(layer);
  std::uint8_t* value_plane = plane + plane_bytes(layer);
  auto* keys =
      reinterpret_cast<std::int8_t*>(plane) + offset / width * head_dim * width + offset % width;
  auto* values = reinterpret_cast<std::int8_t*>(value_plane) + offset * head_dim;
  auto* key_scales = reinterpret_cast<float*>(plane + scales_at(layer)) +
                     offset / width * scales * width + offset % width;
  auto* value_scales = reinterpret_cast<float*>(value_plane + scales_at(layer)) + offset * scales;
  for (int i = 0; i < scales; ++i) {
    const int d = i * kKvScaleDims, count = std::min(kKvScaleDims, head_dim - d);
    key_scales[i * width] = quantise(key + d, count, keys + d * width, width);
    value_scales[i] = quantise(value + d, count, values + d, 1);
  }
}

void CpuKvPool::write(int layer, std::int64_t slot, int kv_head, const float* key,
                      const float* value) {
  QUIRE_CHECK(slot >= 0 && slot / block_size_ < num_blocks_, slot, num_blocks_, block_size_);
  const int block = static_cast<int>(slot / block_size_);
  const int offset = static_cast<int>(slot % block_size_);
  std::uint8_t* target = plane(layer, block, kv_head);
  switch (dtype_) {
    case KvDType::kBF16:
      return write_as<std::uint16_t>(target, layer, offset, key, value, float_to_bf16);
    case KvDType::kF16:
      return write_as<std::uint16_t>(target, layer, offset, key, value, to_finite_half);
    case KvDType::kF32:
      return write_as<float>(target, layer, offset, key, value, [](float x) { return x; });
    case KvDType::kInt8:
      return write_int8(target, layer, offset, key, value);
  }
}

}  // namespace quire::cpu
