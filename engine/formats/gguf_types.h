#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/dtype.h"

namespace quire {

// GGUF's numbers for tensor types (ggml_type).
std::optional<DType> dtype_of_gguf_type(std::uint32_t type);
// "IQ4_XS"; "number 99" for one the format does not define.
std::string gguf_type_name(std::uint32_t type);

}  // namespace quire
