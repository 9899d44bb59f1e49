#pragma once

#include <string>
#include <vector>

namespace quire::cpu {

struct KernelTable;

// Instruction sets in rising order; each includes the ones before it.
//   kScalar  any x86-64
//   kAvx2    AVX2, FMA, F16C
//   kAvx512  AVX-512 F, BW, VL, DQ and VNNI
//   kAmx     AMX tiles of 8-bit integers, which Linux lets a process use on request
enum class Isa { kScalar, kAvx2, kAvx512, kAmx };

struct Detected {
  Isa isa = Isa::kScalar;  // the highest to use
  // Why a higher one that the CPU has is not used, a sentence for people; else empty.
  std::string reason;
};

// What this machine can run. Found out once: asks Linux for the tiles and tries them
// (self_check.h), so the first call is to come before threads that use them.
const Detected& detected();
inline Isa detect() {
  return detected().isa;
}
// What becomes of a CPU with AVX-512 that has tiles. The callbacks: whether Linux lets this process
// use them; whether they give the right results.
Detected with_tiles(bool (*permitted)(), bool (*right)());

const char* isa_name(Isa isa);  // "scalar", "avx2", "avx512", "amx"
// The set of that name, or detect() when it is empty. False and a sentence in `error` for a name
// that is none and for a set this machine lacks.
bool isa_named(const std::string& name, Isa& isa, std::string& error);
// Its inner loops; only for a set that detect() allows.
const KernelTable& kernels_of(Isa isa);
// The CPUs the calling thread may run on (taskset and cgroups limit them), grouped by physical core
// and ascending. Every CPU is its own core where sysfs does not say.
std::vector<std::vector<int>> allowed_cores();

}  // namespace quire::cpu
