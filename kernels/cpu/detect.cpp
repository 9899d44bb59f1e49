#include "kernels/cpu/detect.h"

#include <cpuid.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace quire {
namespace cpu {

namespace {

// Not among the names clang's __builtin_cpu_supports knows.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace

Isa detect() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  return avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kScalar;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kScalar:
      break;
  }
  return "scalar";
}

const KernelTable& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return avx512_kernels();
    case Isa::kAvx2:
      return avx2_kernels();
    case Isa::kScalar:
      break;
  }
  return scalar_kernels();
}

}  // namespace cpu

std::string detect_isa() {
  return cpu::isa_name(cpu::detect());
}

// Counts distinct sets of sibling threads among the CPUs this process may run on; the number of
// hardware threads when sysfs does not say.
int physical_cores() {
  const int threads = std::max(1u, std::thread::hardware_concurrency());
  std::set<std::string> cores;
  for (int cpu = 0; cpu < 4096; ++cpu) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings)) break;
    cores.insert(siblings);
  }
  return cores.empty() ? threads : std::min<int>(threads, static_cast<int>(cores.size()));
}

}  // namespace quire
