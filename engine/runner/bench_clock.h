#pragma once

#include <chrono>

namespace quire {

// Wall time for benches: seconds, monotone.
inline double bench_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace quire
