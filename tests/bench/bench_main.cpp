#include <algorithm>
#include <cstdio>

#include "engine/model_host.h"
#include "kernels/cpu/detect.h"
#include "tests/bench/bench.h"

namespace quire::test {

Bench& bench() {
  static Bench the_bench;
  return the_bench;
}

void report(benchmark::State& state, const Work& work, const MachineLimits& limits) {
  using benchmark::Counter;
  const double ops = work.flops + work.bf16_flops + work.int8_ops;
  const double seconds = std::max({work.bytes / limits.read_gb_s(work.working_set),
                                   work.flops / limits.fma_gflop_s.all_threads,
                                   work.bf16_flops / limits.bf16_gflop_s.all_threads,
                                   work.int8_ops / limits.int8_gop_s.all_threads}) *
                         1e-9;
  state.counters["bytes"] = Counter(work.bytes, Counter::kIsIterationInvariantRate);
  if (ops > 0) state.counters["ops"] = Counter(ops, Counter::kIsIterationInvariantRate);
  state.counters["of_limit"] = Counter(seconds, Counter::kIsIterationInvariantRate);
}

namespace {

bool prepare(std::string& error) {
  Bench& b = bench();
  b.options.isa = requested_isa();
  cpu::Isa isa = cpu::Isa::kScalar;
  if (!cpu::isa_named(b.options.isa, isa, error)) return false;
  b.kernels = &cpu::kernels_of(isa);
  LimitsOptions options;
  options.isa = b.options.isa;
  const auto all = measure_limits(options, error);
  options.num_threads = 1;
  const auto one = measure_limits(options, error);
  if (!all || !one) return false;
  b.all_threads = *all;
  b.one_thread = *one;
  b.backend = make_cpu_backend(b.options, error);
  return b.backend != nullptr;
}

void print_limits(const MachineLimits& limits) {
  std::printf("%s, %d threads: %.0f GFLOP/s float32, %.0f BF16, %.0f GOP/s 8-bit; reading",
              limits.isa.c_str(), limits.num_threads, limits.fma_gflop_s.all_threads,
              limits.bf16_gflop_s.all_threads, limits.int8_gop_s.all_threads);
  for (const auto& [bytes, gb_s] : limits.read) std::printf(" %zu MiB %.1f", bytes >> 20, gb_s);
  std::printf(" GB/s\n");
}

}  // namespace
}  // namespace quire::test

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::string error;
  if (!quire::test::prepare(error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  quire::test::print_limits(quire::test::bench().one_thread);
  quire::test::print_limits(quire::test::bench().all_threads);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
