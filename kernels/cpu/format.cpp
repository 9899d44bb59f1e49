#include "kernels/cpu/format.h"

#include "kernels/check.h"

namespace quire::cpu {

PackedFormat packed_format(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return kPackedQ4_0;
    case DType::kQ4_1:
      return kPackedQ4_1;
    case DType::kQ5_0:
      return kPackedQ5_0;
    case DType::kQ5_1:
      return kPackedQ5_1;
    case DType::kQ8_0:
      return kPackedQ8_0;
    case DType::kQ2_K:
      return kPackedQ2_K;
    case DType::kQ3_K:
      return kPackedQ3_K;
    case DType::kQ4_K:
      return kPackedQ4_K;
    case DType::kQ5_K:
      return kPackedQ5_K;
    case DType::kQ6_K:
      return kPackedQ6_K;
    case DType::kIQ4_NL:
      return kPackedIQ4_NL;
    case DType::kIQ4_XS:
      return kPackedIQ4_XS;
    case DType::kMXFP4:
      return kPackedMXFP4;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  QUIRE_CHECK(is_quantised(dtype), dtype_info(dtype).name);
  return kPackedQ8_0;
}

std::size_t panel_bytes(DType dtype, std::int64_t cols) {
  if (!is_quantised(dtype)) {
    const std::int64_t inputs = dtype == DType::kBF16 ? bf16_cols(cols) : cols;
    return static_cast<std::size_t>(inputs) * kPanelRows * dtype_info(dtype).block_bytes;
  }
  const PackedFormat format = packed_format(dtype);
  const std::int64_t inputs = std::int64_t{kBlock} * format.blocks_per_super();
  QUIRE_CHECK(cols % inputs == 0, cols, inputs);
  return static_cast<std::size_t>(cols / inputs) * format.super_bytes();
}

}  // namespace quire::cpu
