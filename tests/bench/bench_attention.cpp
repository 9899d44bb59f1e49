// Attention, and what goes before it: rotation and the write to the KV cache.
#include <cmath>

#include "tests/bench/bench.h"
#include "tests/kernels/kernel_fixtures.h"

namespace quire::test {
namespace {

constexpr int kBlockSize = 16;
constexpr QkvShape kShapes[] = {{9, 3, 64}, {16, 8, 128}};  // SmolLM2-135M, Qwen3-0.6B

// Requests of equal length in a step.
struct Load {
  int requests = 1, computed = 0,
      tokens = 1;         // each has `computed` in the cache, computes `tokens`
  int shared_blocks = 0;  // of the cache, at the beginning of all of them

  int blocks_each() const { return (computed + tokens + kBlockSize - 1) / kBlockSize; }
  int blocks() const { return shared_blocks + requests * (blocks_each() - shared_blocks); }
  Step step() const {
    std::vector<Piece> pieces;
    std::vector<std::vector<int>> tables(requests);
    for (int r = 0; r < requests; ++r) {
      pieces.push_back({r, computed, tokens});
      for (int b = 0; b < blocks_each(); ++b)
        tables[r].push_back(b < shared_blocks ? b
                                              : shared_blocks + (b - shared_blocks) * requests + r);
    }
    return Step(pieces, tables, kBlockSize);
  }
};

// A load's step over layers that are used in turn.
struct Scene {
  Backend& backend;
  QkvShape shape;
  KvSpec spec;
  Load load;
  Step step;
  std::unique_ptr<KvPool> pool;
  std::unique_ptr<Buffer> qkv, out;

  Scene(Backend& the_backend, const QkvShape& the_shape, int layers, const Load& the_load)
      : backend(the_backend), shape(the_shape), load(the_load), step(load.step()) {
    spec.layers.assign(layers, {shape.num_kv_heads, shape.head_dim, 0});
    pool = backend.allocate_kv(spec, load.blocks(), kBlockSize);
    fill();
    qkv = backend.allocate(step.num_tokens(), shape.qkv_width());
    out = backend.allocate(step.num_tokens(), shape.num_heads * shape.head_dim);
    Random random(1);
    set_rows(backend, step, *qkv,
             random.normals(static_cast<std::size_t>(step.num_tokens()) * shape.qkv_width()));
    backend.begin_step(step.view());
  }
  ~Scene() { backend.end_step(); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  int layers() const { return static_cast<int>(spec.layers.size()); }
  std::size_t pool_bytes() const { return pool->num_blocks() * pool->bytes_per_block(); }
  void attend(int layer) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    backend.attend(*qkv, shape, scale, *pool, layer, *out);
  }

 private:
  // BF16 numbers of either sign around 0.05; of the other types finite ones.
  void fill() {
    std::vector<std::byte> bytes(pool->bytes_per_block());
    Random random(2);
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      bytes[i] = static_cast<std::byte>(random.below(256));
      bytes[i + 1] = static_cast<std::byte>(random.below(2) * 128 + 0x3d);
    }
    for (int block = 0; block < pool->num_blocks(); ++block) pool->write_block(block, bytes);
  }
};

// range(0): the shape; range(1): requests; range(2): tokens in the cache; range(3): tokens each
// computes.
void attention(benchmark::State& state) {
  const QkvShape shape = kShapes[state.range(0)];
  const Load load{static_cast<int>(state.range(1)), static_cast<int>(state.range(2)),
                  static_cast<int>(state.range(3))};
  Scene scene(*bench().backend, shape, 8, load);
  int layer = 0;
  for (auto _ : state) {
    scene.attend(layer);
    layer = (layer + 1) % scene.layers();
  }
  double seen = 0;
  for (int i = 0; i < load.tokens; ++i) seen += load.computed + i + 1;
  Work work;
  work.bytes = static_cast<double>(scene.pool_bytes()) / scene.layers();
  work.working_set = scene.pool_bytes();
  work.flops = 4.0 * load.requests * seen * shape.num_heads * shape.head_dim;
  report(state, work, bench().all_threads);
}
// Decoding at depth, alone and 16 at a time; a prompt, and a chunk of one.
BENCHMARK(attention)
    ->ArgNames({"shape", "requests", "computed", "tokens"})
    ->ArgsProduct({{0, 1}, {1, 16}, {1024}, {1}})
    ->ArgsProduct({{0, 1}, {1}, {0}, {512}})
    ->ArgsProduct({{0, 1}, {1}, {1024}, {256}})
    ->UseRealTime();

// Attention of a decode step over 30 layers of SmolLM2-135M's shape: range(0) sequences of range(1)
// tokens, of which range(2) are in shared blocks; range(3) = 1: read those once; range(4): the type
// of keys and values. Bytes are those of every sequence's keys and values.
void decode_attention(benchmark::State& state) {
  const Load load{.requests = static_cast<int>(state.range(0)),
                  .computed = static_cast<int>(state.range(1)) - 1,
                  .shared_blocks = static_cast<int>(state.range(2)) / kBlockSize};
  BackendOptions options;
  options.cascade_attention = state.range(3) == 1;
  options.kv_dtype = static_cast<KvDType>(state.range(4));
  std::string error;
  const auto backend = make_cpu_backend(options, error);
  Scene scene(*backend, kShapes[0], 30, load);
  for (auto _ : state) {
    backend->begin_step(scene.step.view());
    for (int layer = 0; layer < scene.layers(); ++layer) scene.attend(layer);
  }
  state.SetLabel(std::string(kv_dtype_name(options.kv_dtype)) + (state.range(3) ? ", once" : ""));
  state.SetBytesProcessed(static_cast<std::int64_t>(
      state.iterations() * scene.pool->bytes_per_block() * load.blocks_each() * load.requests));
}
BENCHMARK(decode_attention)
    ->ArgNames({"sequences", "tokens", "shared", "once", "type"})
    ->Args({16, 1040, 1000, 0, 0})
    ->Args({16, 1040, 1000, 1, 0})
    ->Args({16, 1040, 0, 1, 0})
    ->ArgsProduct({{1}, {1024, 4096}, {0}, {1}, {0, 2, 3}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// range(0): the shape; range(1): tokens.
void rope_write(benchmark::State& state) {
  const QkvShape shape = kShapes[state.range(0)];
  const int tokens = static_cast<int>(state.range(1));
  Scene scene(*bench().backend, shape, 8, {.tokens = tokens});
  std::vector<float> frequencies;
  for (int i = 0; i < shape.head_dim / 2; ++i)
    frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / shape.head_dim));
  const auto inv_freq = bench().backend->upload(frequencies);
  const RopeParams rope{inv_freq.get(), 1.0f, shape.head_dim, false};
  int layer = 0;
  for (auto _ : state) {
    bench().backend->rope_write(*scene.qkv, shape, nullptr, nullptr, 0.0f, rope, *scene.pool,
                                layer);
    layer = (layer + 1) % scene.layers();
  }
  // Q and K are rewritten, V is read, K and V go to the cache in 16 bits.
  const double heads = 2.0 * shape.num_heads + 3.0 * shape.num_kv_heads + shape.num_kv_heads;
  Work work;
  work.bytes = tokens * heads * shape.head_dim * sizeof(float);
  work.working_set = scene.pool_bytes();
  report(state, work, bench().all_threads);
}
BENCHMARK(rope_write)
    ->ArgNames({"shape", "tokens"})
    ->ArgsProduct({{0, 1}, {1, 64, 512}})
    ->UseRealTime();

}  // namespace
}  // namespace quire::test
