#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"

namespace quire::cpu {

// Where the threads of a backend run, and how the system favours them. Immutable.
class Placement {
 public:
  // Finds the CPUs the calling thread may use and tries the settings on a thread of their own;
  // what the system refuses becomes a warning, not an error.
  Placement(CpuPin pin, CpuPriority priority, int num_threads);

  // Places the calling thread as number `thread` of [0, num_threads). What was refused stays as it
  // is.
  void apply(int thread) const;

  const std::vector<std::string>& warnings() const { return warnings_; }  // sentences

  static constexpr int kNice = 10;  // of low priority; high is its negative

 private:
  bool pin_to_cpu(int cpu) const;
  bool set_priority() const;
  void probe();

  CpuPriority priority_;
  std::vector<int> cpus_;  // one for each thread; empty: not pinned
  std::vector<std::string> warnings_;
};

}  // namespace quire::cpu
