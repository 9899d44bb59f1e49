// Attention of query rows over one span.
#include "kernels/cpu/span_scratch.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/bench/bench.h"
#include "tests/kernels/kernel_fixtures.h"

namespace quire::test {
namespace {

// Attention of some query rows over one span, in the cache: range(0) rows, a decoding request's or,
// from 8 on, of a prefill; range(1) the type of the stored keys and values; head dim 64.
void attention_span(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  Random random(2);
  const int group = static_cast<int>(state.range(0)), dim = 64, span = cpu::kSpan;
  const auto type = static_cast<KvDType>(state.range(1));
  const int spare = group + cpu::kSpareRows;
  std::vector<float> q = random.normals(spare * dim);
  std::vector<std::uint16_t> q_bf16(q.size());
  bench().kernels->attention->round_queries(q.data(), spare * dim, q_bf16.data());
  const std::vector<std::uint8_t> stored(span * dim * kv_element_bytes(type), 0x3c);
  const std::vector<float> scales(span * 2, 0.01f);
  cpu::SpanScratch scratch(group, dim);
  const int begin = 0, end = span;
  cpu::SpanArgs args;
  args.head_dim = args.padded_dim = dim;
  args.group = group;
  args.queries = 1;
  args.q = q.data();
  args.q_bf16 = q_bf16.data();
  for (int t = 0; t < span / 16; ++t) {
    const std::uint8_t* tile = stored.data() + t * 16 * dim * kv_element_bytes(type);
    args.tiles[t] = {tile, tile, scales.data(), scales.data()};
    args.next_keys[t] = tile;
  }
  args.begin = &begin;
  args.end = &end;
  scratch.lend(args);
  for (auto _ : state) {
    bench().kernels->attention->attend_span[state.range(1)](args);
    benchmark::DoNotOptimize(scratch.out.data());
  }
  if (bench().kernels->end_job) bench().kernels->end_job();
  state.SetLabel(std::string(kv_dtype_name(type)));
  state.counters["ops"] =
      benchmark::Counter(4.0 * span * dim * group, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_span)->ArgsProduct({{1, 3, 8, 60}, {0, 1, 2, 3}});

}  // namespace
}  // namespace quire::test
