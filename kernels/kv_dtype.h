#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// How a KV pool keeps keys and values. kInt8: 8-bit integers with one float32 scale for every
// kKvScaleDims dims of a token's key, or value, of one head (amax / 127).
enum class KvDType : std::uint8_t { kBF16, kF16, kF32, kInt8 };
inline constexpr int kNumKvDTypes = 4;
inline constexpr int kKvScaleDims = 32;

constexpr int kv_element_bytes(KvDType type) {
  return type == KvDType::kF32 ? 4 : type == KvDType::kInt8 ? 1 : 2;
}
// Scales of one key, or value; 0 for types without.
constexpr int kv_num_scales(KvDType type, int head_dim) {
  return type == KvDType::kInt8 ? (head_dim + kKvScaleDims - 1) / kKvScaleDims : 0;
}

// The names people choose by, in the order of the enumeration: "bf16", "f16", "f32", "int8".
std::span<const std::string_view> kv_dtype_names();
std::string_view kv_dtype_name(KvDType type);
std::optional<KvDType> kv_dtype_of(std::string_view name);
// "bf16, f16, f32 or int8", for a sentence.
std::string kv_dtype_choices();

}  // namespace quire
