#pragma once

#include <time.h>

#include <chrono>

namespace quire {

// Wall time for benches: seconds, monotone.
inline double bench_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time in seconds, of all threads of this program and of the calling one. On one thread it
// tells what work costs even while other programs keep the machine busy.
inline double bench_cpu_clock(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
inline double bench_thread_clock() {
  return bench_cpu_clock(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace quire
