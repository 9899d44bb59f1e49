#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace quire {

// What this machine can do at most, by its highest instruction set that the kernels know.
struct MachineLimits {
  struct Bandwidth {
    std::size_t bytes = 0;  // read over and over, each thread a part of it
    double gb_s = 0;        // 10^9 bytes a second
  };
  std::string isa;
  int num_threads = 0;
  double fma_gflop_s = 0;  // float32, a fused multiply-add counted as two
  std::vector<Bandwidth> read;
};

// Medians of `repeats` runs of some 20 ms each, on up to `most_bytes` of memory in 2 MiB pages
// where the system gives them. `num_threads` 0 = one per physical core. Takes seconds and all of
// the machine.
MachineLimits measure_limits(int num_threads, int repeats = 7,
                             std::size_t most_bytes = std::size_t{512} << 20);

}  // namespace quire
