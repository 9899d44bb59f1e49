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
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};
inline constexpr int kNumDTypes = 16;

// What the four bits of a weight stand for in IQ4_NL and IQ4_XS, and, in halves, in MXFP4 (the E2M1
// numbers of the OCP Microscaling formats). As the GGUF package has them.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
inline constexpr std::int8_t kMxfp4Values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                 0, -1, -2, -3, -4, -6, -8, -12};

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
// Half of the power of two an MXFP4 block's exponent byte names: 2^(exponent - 128).
float mxfp4_scale(std::uint8_t exponent);
std::uint16_t float_to_bf16(float value);

}  // namespace quire
