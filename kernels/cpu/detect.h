#pragma once

#include <vector>

namespace quire::cpu {

struct KernelTable;

// Instruction sets in rising order; each includes the ones before it.
//   kScalar  any x86-64
//   kAvx2    AVX2, FMA, F16C
//   kAvx512  AVX-512 F, BW, VL, DQ and VNNI
enum class Isa { kScalar, kAvx2, kAvx512 };

// What the CPU and the operating system support.
Isa detect();
const char* isa_name(Isa isa);  // "scalar", "avx2", "avx512"
// Its inner loops; only for a set that detect() allows.
const KernelTable& kernels_of(Isa isa);
// The CPUs the calling thread may run on (taskset and cgroups limit them), grouped by physical core
// and ascending. Every CPU is its own core where sysfs does not say.
std::vector<std::vector<int>> allowed_cores();

}  // namespace quire::cpu
