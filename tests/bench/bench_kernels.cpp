// Speed of the CPU kernels on the shapes of a small model: bytes of weights per second for one row
// of activations, operations (2 per multiply-add) per second for many.
#include <benchmark/benchmark.h>

#include "kernels/cpu/detect.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixtures.h"

namespace quire::test {
namespace {

using cpu::KernelTable;

constexpr int kCols = 1536;

const KernelTable& best_table() {
  return cpu::kernels_of(cpu::detect());
}

struct QuantisedRows {
  std::vector<float> x, scale, scaled_sum;
  std::vector<std::int8_t> q;
  std::vector<std::int16_t> sums;
  int rows;

  QuantisedRows(int count, Random& random)
      : x(random.normals(static_cast<std::size_t>(count) * kCols)),
        scale(x.size() / 32),
        scaled_sum(x.size() / 32),
        q(x.size()),
        sums(x.size() / 16),
        rows(count) {
    best_table().quantise_row(x.data(), static_cast<std::int64_t>(x.size()),
                              {q.data(), scale.data(), scaled_sum.data(),
                               reinterpret_cast<std::int16_t(*)[2]>(sums.data())});
  }
  cpu::ActivationRows view() const {
    return {rows,
            kCols,
            q.data(),
            scale.data(),
            scaled_sum.data(),
            reinterpret_cast<const std::int16_t(*)[2]>(sums.data()),
            x.data()};
  }
};

// range(0): the type; range(1): rows; range(2): megabytes of weights read in turn.
void panels(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  Random random(1);
  const auto dtype = static_cast<DType>(state.range(0));
  const QuantisedRows x(static_cast<int>(state.range(1)), random);
  const StoredMatrix matrix(dtype, 16, kCols, random);
  const std::size_t bytes = cpu::panel_bytes(dtype, kCols);
  const std::size_t count = std::max<std::size_t>(1, (state.range(2) << 20) / bytes);
  cpu::AlignedBytes weights(bytes * count);
  for (std::size_t i = 0; i < count; ++i)
    cpu::pack_panel(matrix.view(), 0, weights.data() + i * bytes);
  std::vector<float> out(x.rows * 16);
  std::size_t next = 0;
  for (auto _ : state) {
    best_table().panel[state.range(0)](weights.data() + next * bytes, x.view(), out.data());
    benchmark::DoNotOptimize(out.data());
    next = (next + 1) % count;
  }
  state.SetLabel(std::string(dtype_info(dtype).name) + " " + best_table().name);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
  state.counters["ops"] =
      benchmark::Counter(2.0 * 16 * kCols * x.rows, benchmark::Counter::kIsIterationInvariantRate);
}

void panel_arguments(benchmark::internal::Benchmark* b) {
  for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
    b->Args({dtype, 1, 0});
    b->Args({dtype, 1, 128});
    b->Args({dtype, 64, 0});
  }
}
BENCHMARK(panels)->Apply(panel_arguments);

// One span of decode attention: range(0) query heads per KV head, head dim 64.
void attention_span(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  Random random(2);
  const int group = static_cast<int>(state.range(0)), dim = 64;
  const std::vector<float> q = random.normals(group * dim), keys = random.normals(128 * dim),
                           values = random.normals(128 * dim);
  std::vector<float> scores(group * 128), largest(group), total(group), out(group * dim);
  const int begin = 0, end = 128;
  for (auto _ : state) {
    best_table().attend_span({dim, dim, group, 1, q.data(), keys.data(), values.data(), &begin,
                              &end, scores.data(), largest.data(), total.data(), out.data()});
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["ops"] =
      benchmark::Counter(4.0 * 128 * dim * group, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_span)->Arg(1)->Arg(3)->Arg(8);

void quantise_row(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  Random random(3);
  QuantisedRows x(1, random);
  for (auto _ : state) {
    best_table().quantise_row(x.x.data(), kCols,
                              {x.q.data(), x.scale.data(), x.scaled_sum.data(),
                               reinterpret_cast<std::int16_t(*)[2]>(x.sums.data())});
    benchmark::DoNotOptimize(x.q.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kCols * sizeof(float)));
}
BENCHMARK(quantise_row);

}  // namespace
}  // namespace quire::test

BENCHMARK_MAIN();
