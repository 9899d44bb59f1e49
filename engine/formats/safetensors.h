#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/weight_source.h"

namespace quire {

// A safetensors file's tensors in the order of their data, checked as the format's reference
// implementation does: known types, sizes that match shapes, extents that cover the data section
// without holes or overlaps. A tensor may be empty (a dimension of 0) or a scalar (no dimensions).
// Data may be unaligned. `label` is the quoted file name. Throws std::bad_alloc only.
Result<std::vector<TensorInfo>> read_safetensors(std::string_view bytes, const std::string& label);

}  // namespace quire
