#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/format.h"

namespace quire::cpu {

// Writes rows [16 * panel, 16 * panel + 16) of `source` as one packed panel of panel_bytes() bytes.
// Rows past the end become zero weights.
void pack_panel(const MatrixView& source, std::int64_t panel, std::uint8_t* target);

}  // namespace quire::cpu
