// Operations on single rows, on one thread: norm and quantisation, activation, sampling.
#include "engine/sampling/params.h"
#include "engine/sampling/sampler.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/bench/bench.h"
#include "tests/kernels/kernel_fixtures.h"

namespace quire::test {
namespace {

Work bytes_in_cache(double bytes) {
  Work work;
  work.bytes = bytes;
  work.working_set = static_cast<std::size_t>(bytes);
  return work;
}

// range(0): values of a row.
void norm_quantise(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  const std::int64_t cols = state.range(0);
  Random random(1);
  const std::vector<float> x = random.normals(cols), weight = random.normals(cols);
  std::vector<float> normed(cols), scale(cols / 32), scaled_sum(cols / 32);
  std::vector<std::int8_t> q(cols);
  std::vector<std::int16_t> sums(cols / 16);
  for (auto _ : state) {
    bench().kernels->rms_norm(x.data(), weight.data(), 1e-5f, cols, normed.data());
    bench().kernels->quantise_row(normed.data(), cols,
                                  {q.data(), scale.data(), scaled_sum.data(),
                                   reinterpret_cast<std::int16_t(*)[2]>(sums.data())});
    benchmark::DoNotOptimize(q.data());
    benchmark::ClobberMemory();
  }
  // x and the weights are read, the normed row is written and read, the bytes are written.
  report(state, bytes_in_cache(static_cast<double>(cols) * (4 * sizeof(float) + 1.375)),
         bench().one_thread);
}
BENCHMARK(norm_quantise)->Arg(576)->Arg(1536)->Arg(4096)->UseRealTime();

void silu_mul(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  const std::int64_t count = state.range(0);
  Random random(2);
  const std::vector<float> gate = random.normals(count), up = random.normals(count);
  std::vector<float> out(count);
  for (auto _ : state) {
    bench().kernels->silu_mul(gate.data(), up.data(), out.data(), count);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, bytes_in_cache(static_cast<double>(count) * 3 * sizeof(float)), bench().one_thread);
}
BENCHMARK(silu_mul)->Arg(1536)->UseRealTime();

// range(0): 0 = greedy, 1 = temperature alone, 2 = top-k 40 and top-p 0.95. The logits are copied
// each time, as sample_row() leaves none.
void sampler(benchmark::State& state) {
  constexpr int kVocab = 49152;
  Random random(3);
  const std::vector<float> logits = random.normals(kVocab, 3.0f);
  std::vector<float> scratch(kVocab);
  SamplingParams params;
  params.seed = 1;
  params.temperature = state.range(0) == 0 ? 0.0f : 0.8f;
  if (state.range(0) == 2) {
    params.top_k = 40;
    params.top_p = 0.95f;
  }
  SamplingRow row;
  row.params = &params;
  for (auto _ : state) {
    std::copy(logits.begin(), logits.end(), scratch.begin());
    benchmark::DoNotOptimize(sample_row(scratch, row));
    ++row.output_index;
  }
  report(state, bytes_in_cache(3.0 * kVocab * sizeof(float)), bench().one_thread);
}
BENCHMARK(sampler)->ArgName("kind")->DenseRange(0, 2)->UseRealTime();

}  // namespace
}  // namespace quire::test
