#include "kernels/dtype.h"

#include <array>
#include <bit>

#include "kernels/check.h"

namespace quire {
namespace {

// Block sizes as the GGUF specification gives them.
constexpr std::array<DTypeInfo, kNumDTypes> kInfo{{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"IQ4_NL", 32, 18},
    {"IQ4_XS", 256, 136},
    {"MXFP4", 32, 17},
}};

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  return kInfo[static_cast<std::size_t>(dtype)];
}

std::size_t row_bytes(DType dtype, std::int64_t cols) {
  const DTypeInfo& info = dtype_info(dtype);
  QUIRE_CHECK(cols >= 0 && cols % info.block_elements == 0, cols, info.name);
  return static_cast<std::size_t>(cols / info.block_elements) * info.block_bytes;
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa x 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);  // NaN
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude <
      0x38800000u) {  // below 2^-14: adding 0.5 aligns the mantissa and rounds to nearest even
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float mxfp4_scale(std::uint8_t exponent) {
  const std::uint32_t bits = exponent < 2 ? 0x200000u << exponent : (exponent - 1u) << 23;
  return std::bit_cast<float>(bits);
}

std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // NaN
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace quire
