#include "kernels/cpu/placement.h"

#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "kernels/cpu/detect.h"

namespace quire::cpu {
namespace {

// Every core's first CPU, then, where that does not suffice, the cores' other hardware threads.
// Empty when there are fewer CPUs than threads.
std::vector<int> choose_cpus(const std::vector<std::vector<int>>& cores, int num_threads) {
  std::vector<int> cpus;
  for (std::size_t sibling = 0;; ++sibling) {
    const std::size_t before = cpus.size();
    for (const std::vector<int>& core : cores) {
      if (static_cast<int>(cpus.size()) == num_threads) return cpus;
      if (sibling < core.size()) cpus.push_back(core[sibling]);
    }
    if (static_cast<int>(cpus.size()) == num_threads) return cpus;
    if (cpus.size() == before) return {};
  }
}

}  // namespace

Placement::Placement(CpuPin pin, CpuPriority priority, int num_threads) : priority_(priority) {
  if (pin == CpuPin::kCores) {
    cpus_ = choose_cpus(allowed_cores(), num_threads);
    if (cpus_.empty())
      warnings_.push_back("The threads are not pinned: this process may not use as many CPUs as " +
                          std::to_string(num_threads) + ".");
  }
  if (!cpus_.empty() || priority_ != CpuPriority::kNormal) std::thread([this] { probe(); }).join();
}

void Placement::probe() {
  for (const int cpu : cpus_) {
    if (pin_to_cpu(cpu)) continue;
    warnings_.push_back("The threads are not pinned: the system refused CPU " +
                        std::to_string(cpu) + " (" + std::strerror(errno) + ").");
    cpus_.clear();
    break;
  }
  if (set_priority()) return;
  warnings_.push_back(
      errno == EACCES || errno == EPERM
          ? "The threads keep their normal priority: raising it needs the capability CAP_SYS_NICE "
            "or a limit on nice (ulimit -e) of at least " +
                std::to_string(20 + kNice) + "."
          : std::string("The threads keep their normal priority: ") + std::strerror(errno) + ".");
}

void Placement::apply(int thread) const {
  if (!cpus_.empty()) pin_to_cpu(cpus_[static_cast<std::size_t>(thread)]);
  set_priority();
}

bool Placement::pin_to_cpu(int cpu) const {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

// To Linux a thread's nice value is its own.
bool Placement::set_priority() const {
  if (priority_ == CpuPriority::kNormal) return true;
  return setpriority(PRIO_PROCESS, 0, priority_ == CpuPriority::kLow ? kNice : -kNice) == 0;
}

}  // namespace quire::cpu
