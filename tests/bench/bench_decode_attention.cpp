// Decoding's attention by the type of keys and values, and with blocks that sequences share.
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

// Attention of a decode step over 30 layers of 9 heads in 3 groups, head dim 64: range(0) sequences
// of range(1) tokens, of which range(2) are in shared blocks; range(3) = 1: read those once;
// range(4): the type of keys and values. Bytes are those of every sequence's keys and values.
void decode_attention(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0)), length = static_cast<int>(state.range(1));
  const int shared = static_cast<int>(state.range(2)) / 16, blocks = (length + 15) / 16;
  BackendOptions options;
  options.cascade_attention = state.range(3) == 1;
  options.kv_dtype = static_cast<KvDType>(state.range(4));
  std::string error;
  const auto backend = make_cpu_backend(options, error);
  constexpr int kLayers = 30;
  const QkvShape shape{9, 3, 64};
  const KvSpec spec{std::vector<KvLayerSpec>(kLayers, {3, 64, 0})};
  std::vector<std::vector<int>> tables;
  std::vector<Piece> pieces;
  int next = shared;
  for (int r = 0; r < count; ++r) {
    std::vector<int>& table = tables.emplace_back();
    for (int i = 0; i < blocks; ++i) table.push_back(i < shared ? i : next++);
    pieces.push_back({r, length - 1, 1});
  }
  const auto pool = backend->allocate_kv(spec, next, 16);
  const std::vector<std::byte> content(pool->bytes_per_block(), std::byte{0x3c});
  for (int block = 0; block < next; ++block) pool->write_block(block, content);
  Step step(pieces, tables, 16);
  const auto qkv = backend->allocate(count, shape.qkv_width());
  const auto out = backend->allocate(count, shape.num_heads * shape.head_dim);
  Random random(4);
  set_rows(*backend, step, *qkv, random.normals(count * shape.qkv_width()));
  for (auto _ : state) {
    backend->begin_step(step.view());
    for (int layer = 0; layer < kLayers; ++layer)
      backend->attend(*qkv, shape, 0.125f, *pool, layer, *out);
  }
  state.SetLabel(std::string(kv_dtype_name(options.kv_dtype)) + (state.range(3) ? ", once" : ""));
  state.SetBytesProcessed(static_cast<std::int64_t>(
      state.iterations() * backend->kv_bytes_per_block(spec, 16) * blocks * count));
}
BENCHMARK(decode_attention)
    ->ArgNames({"sequences", "tokens", "shared", "once", "type"})
    ->Args({16, 1040, 1000, 0, 0})
    ->Args({16, 1040, 1000, 1, 0})
    ->Args({16, 1040, 0, 1, 0})
    ->ArgsProduct({{1}, {1024, 4096}, {0}, {1}, {0, 2, 3}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace quire::test
