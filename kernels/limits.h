#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace quire {

// What this machine can do at most with the inner loops of one instruction set.
struct MachineLimits {
  struct Bandwidth {
    std::size_t bytes = 0;  // read over and over, each thread a part of it
    double gb_s = 0;        // 10^9 bytes a second
  };
  // 10^9 operations a second, a multiply-add counted as two.
  struct Compute {
    double one_thread = 0;
    double all_threads = 0;
  };
  std::string isa;
  int num_threads = 0;
  Compute fma_gflop_s;   // float32, fused
  Compute bf16_gflop_s;  // the same where the set multiplies BF16 as float32
  // Bytes, summed as the matrix kernels do for 4-bit weights: exactly, in 16 bits and then 32 where
  // the set has no instruction that goes to 32 at once.
  Compute int8_gop_s;
  std::vector<Bandwidth> read;  // all threads

  // Of the working set nearest to `bytes` from below, else the smallest.
  double read_gb_s(std::size_t bytes) const;
};

struct LimitsOptions {
  int num_threads = 0;                              // 0 = one per physical core
  int repeats = 7;                                  // runs of some 20 ms, whose median counts
  std::size_t most_bytes = std::size_t{512} << 20;  // of memory, in 2 MiB pages where there are any
  std::string isa;                                  // as in BackendOptions
};

// Takes seconds and all of the machine. Null and a sentence in `error` when it lacks `isa`.
std::optional<MachineLimits> measure_limits(const LimitsOptions& options, std::string& error);

}  // namespace quire
