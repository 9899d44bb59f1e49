#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

// Element types of stored weights. Quantised ones are GGUF's block formats, byte for byte.
enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};
inline constexpr int kNumDTypes = 13;

struct DTypeInfo {
  std::string_view name;  // "Q4_0"
  int block_elements;     // elements per block; 1 for plain types
  int block_bytes;
};
const DTypeInfo& dtype_info(DType dtype);

// Bytes of one row of `cols` elements. cols must be a multiple of block_elements.
std::size_t row_bytes(DType dtype, std::int64_t cols);

// Decodes `count` elements (a multiple of block_elements) to float32, as the Python gguf package
// does.
void dequantize(DType dtype, const void* source, float* target, std::int64_t count);

// IEEE half and bfloat16 conversions; float to bf16 rounds to nearest even.
float half_to_float(std::uint16_t bits);
std::uint16_t float_to_half(float value);
float bf16_to_float(std::uint16_t bits);
std::uint16_t float_to_bf16(float value);

}  // namespace quire
