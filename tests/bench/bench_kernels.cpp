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

// One span of decode attention, in the cache: range(0) query heads per KV head, range(1) the type
// of the stored keys and values; head dim 64.
void attention_span(benchmark::State& state) {
  const cpu::FlushDenormals flush;
  Random random(2);
  const int group = static_cast<int>(state.range(0)), dim = 64, span = cpu::kSpan;
  const auto type = static_cast<KvDType>(state.range(1));
  const std::vector<float> q = random.normals(group * dim);
  const std::vector<std::uint8_t> stored(span * dim * kv_element_bytes(type), 0x3c);
  const std::vector<float> scales(span * 2, 0.01f);
  std::vector<float> scores(group * span), largest(group), total(group), out(group * dim),
      keys(16 * dim), values(span * dim);
  const int begin = 0, end = span;
  cpu::SpanArgs args;
  args.head_dim = args.padded_dim = dim;
  args.group = group;
  args.queries = 1;
  args.q = q.data();
  for (int t = 0; t < span / 16; ++t) {
    const std::uint8_t* tile = stored.data() + t * 16 * dim * kv_element_bytes(type);
    args.tiles[t] = {tile, tile, scales.data(), scales.data()};
  }
  args.begin = &begin;
  args.end = &end;
  args.scores = scores.data();
  args.key_floats = keys.data();
  args.value_floats = values.data();
  args.largest = largest.data();
  args.total = total.data();
  args.out = out.data();
  for (auto _ : state) {
    best_table().attention->attend_span[state.range(1)](args);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetLabel(std::string(kv_dtype_name(type)));
  state.counters["ops"] =
      benchmark::Counter(4.0 * span * dim * group, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_span)->ArgsProduct({{1, 3, 8}, {0, 1, 2, 3}});

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
