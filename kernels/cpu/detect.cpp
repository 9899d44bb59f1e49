#include "kernels/cpu/detect.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/self_check.h"

namespace quire {
namespace cpu {

namespace {

// Not among the names clang's __builtin_cpu_supports knows.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// AMX-TILE, -INT8 and -BF16, and tile state among what XSAVE keeps (Intel SDM volume 1, 18.3).
bool cpu_has_tiles() {
  constexpr unsigned kOsXsave = 1u << 27, kNeeded = 1u << 24 | 1u << 25 | 1u << 22;
  constexpr unsigned kTileState = 3u << 17;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsXsave) == 0) return false;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTileState) != kTileState) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kNeeded) == kNeeded;
}

// Linux keeps tile data for a process that asked (arch/x86/xstate in its documentation).
bool tiles_permitted() {
  constexpr long kGetPermissions = 0x1022, kRequestPermission = 0x1023, kTileData = 18;
  std::uint64_t permissions = 0;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 &&
         syscall(SYS_arch_prctl, kGetPermissions, &permissions) == 0 &&
         (permissions >> kTileData & 1) != 0;
}

bool tiles_right() {
  return gives_the_scalar_bits(amx_kernels());
}

Detected detect_once() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
  if (avx512 && cpu_has_tiles()) return with_tiles(tiles_permitted, tiles_right);
  return {avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kScalar, ""};
}

}  // namespace

Detected with_tiles(bool (*permitted)(), bool (*right)()) {
  if (!permitted()) {
    return {Isa::kAvx512, "AMX is not used: the operating system does not grant its tiles."};
  }
  if (!right()) {
    return {Isa::kAvx512, "AMX is not used: its results differ from the scalar kernels' here."};
  }
  return {Isa::kAmx, ""};
}

const Detected& detected() {
  static const Detected kDetected = detect_once();
  return kDetected;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return "amx";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kScalar:
      break;
  }
  return "scalar";
}

bool isa_named(const std::string& name, Isa& isa, std::string& error) {
  isa = detect();
  if (name.empty()) return true;
  for (const Isa candidate : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (name != isa_name(candidate)) continue;
    if (candidate > isa) {
      error = "This machine has no " + name + "; the highest it has is " + isa_name(isa) + ".";
      if (!detected().reason.empty()) error += " " + detected().reason;
      return false;
    }
    isa = candidate;
    return true;
  }
  error = "'" + name + "' is not an instruction set; use scalar, avx2, avx512 or amx.";
  return false;
}

const KernelTable& kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return amx_kernels();
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
