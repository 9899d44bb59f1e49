#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace quire::cpu {

// 32 weights of one row, taken apart: see PackedFormat for how the fields make a weight.
struct SourceBlock {
  std::uint8_t stored[32];     // without the offset; Q8_0: the signed byte
  std::uint16_t d = 0;         // half; MXFP4: bfloat16
  std::uint16_t min = 0;       // half: m or dmin
  std::int8_t scales[2] = {};  // K types: of inputs 0-15 and 16-31
  std::int8_t mins[2] = {};
};

// Block `index` (of 32 inputs) of a row of a quantised type, in GGUF's byte layout.
SourceBlock read_source_block(DType dtype, const std::uint8_t* row, std::int64_t index);

}  // namespace quire::cpu
