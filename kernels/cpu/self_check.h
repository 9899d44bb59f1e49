#pragma once

namespace quire::cpu {

struct KernelTable;

// Whether `table` multiplies a small random matrix of each quantised type and of BF16, and attends
// to a span of BF16 keys and values, to the scalar table's bits. For instructions nobody could try
// before the program met this machine; some milliseconds.
bool gives_the_scalar_bits(const KernelTable& table);

}  // namespace quire::cpu
