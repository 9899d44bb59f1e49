#pragma once

#include <time.h>

#include <chrono>

namespace quire {

// Wall time for benches: seconds, monotone.
inline double bench_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of all threads of this program, in seconds. On one thread it tells what work costs even
// while other programs keep the machine busy.
inline double bench_cpu_clock() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace quire
