#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/gguf.h"

namespace quire {

// What one GGUF file says, checked against its size: metadata, and tensors whose extents lie inside
// the file, are aligned and do not overlap.
struct GgufHeader {
  int version = 0;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<TensorInfo> tensors;  // in file order; data points into the bytes given
};

// Limits no real model comes near. They bound memory where a small file may claim a lot.
struct GgufLimits {
  static constexpr std::uint64_t kMaxKeys = 1 << 16;
  static constexpr std::uint64_t kMaxTensors = 1 << 20;
  static constexpr std::uint64_t kMaxArrayElements = 1 << 24;  // all arrays of a file together
  static constexpr std::uint64_t kMaxKeyBytes = 1 << 16;
  static constexpr std::uint64_t kMaxTensorNameBytes = 256;
  static constexpr std::uint32_t kMaxDims = 4;
};

// `label` is the quoted file name. `bytes` must outlive the result. Throws std::bad_alloc only.
Result<GgufHeader> read_gguf_header(std::string_view bytes, const std::string& label);

}  // namespace quire
