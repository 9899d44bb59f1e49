#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/limits.h"

// What the benchmarks share: the backend they run on and the limits of the machine, measured once
// at the start as `quire bench limits` does. QUIRE_CPU_ISA chooses the instruction set.
namespace quire::test {

struct Bench {
  BackendOptions options;
  std::unique_ptr<Backend> backend;  // one thread per physical core
  const cpu::KernelTable* kernels = nullptr;
  MachineLimits one_thread, all_threads;
};
Bench& bench();

// What one iteration cannot do without.
struct Work {
  double bytes = 0;             // read and written
  std::size_t working_set = 0;  // bytes that come round again, which tells where they are read from
  double flops = 0;             // float32; a multiply-add is two
  double bf16_flops = 0;
  double int8_ops = 0;
};

// Prints bytes and operations a second, and `of_limit`: the time the limits allow for the slowest
// of bytes and operations, divided by the time taken. Benchmarks use real time.
void report(benchmark::State& state, const Work& work, const MachineLimits& limits);

}  // namespace quire::test
