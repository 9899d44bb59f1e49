#include "kernels/cpu/detect.h"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
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

std::vector<std::vector<int>> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::map<std::string, std::size_t> core_of;  // by the list of a core's CPUs
  std::vector<std::vector<int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = "cpu" + std::to_string(cpu);
    const auto [core, added] = core_of.emplace(siblings, cores.size());
    if (added) cores.emplace_back();
    cores[core->second].push_back(cpu);
  }
  return cores;
}

}  // namespace cpu

std::string detect_isa() {
  return cpu::isa_name(cpu::detect());
}

// The number of hardware threads when the system does not say which CPUs may be used.
int physical_cores() {
  const auto cores = cpu::allowed_cores().size();
  return cores > 0 ? static_cast<int>(cores)
                   : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace quire
