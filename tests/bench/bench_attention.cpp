// Attention, and what goes before it: rotation and the write to the KV cache.
#include <cmath>

#include "tests/bench/bench.h"
#include "tests/kernels/kernel_fixtures.h"

namespace quire::test {
namespace {

constexpr int kBlockSize = 16;
constexpr QkvShape kShapes[] = {{9, 3, 64}, {16, 8, 128}};  // SmolLM2-135M, Qwen3-0.6B

// `requests` requests with `computed` tokens in the cache that compute `tokens` more, over layers
// that are used in turn.
struct Scene {
  QkvShape shape;
  int num_layers;
  Step step;
  std::unique_ptr<KvPool> pool;
  std::unique_ptr<Buffer> qkv, out;

  Scene(const QkvShape& the_shape, int layers, int requests, int computed, int tokens)
      : shape(the_shape), num_layers(layers), step(make_step(requests, computed, tokens)) {
    Backend& backend = *bench().backend;
    KvSpec spec;
    spec.layers.assign(layers, {shape.num_kv_heads, shape.head_dim, 0});
    pool = backend.allocate_kv(spec, requests * blocks_for(computed + tokens), kBlockSize);
    fill();
    qkv = backend.allocate(step.num_tokens(), shape.qkv_width());
    out = backend.allocate(step.num_tokens(), shape.num_heads * shape.head_dim);
    Random random(1);
    set_rows(backend, step, *qkv,
             random.normals(static_cast<std::size_t>(step.num_tokens()) * shape.qkv_width()));
    backend.begin_step(step.view());
  }
  ~Scene() { bench().backend->end_step(); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  std::size_t pool_bytes() const { return pool->num_blocks() * pool->bytes_per_block(); }

 private:
  static int blocks_for(int tokens) { return (tokens + kBlockSize - 1) / kBlockSize; }
  static Step make_step(int requests, int computed, int tokens) {
    std::vector<Piece> pieces;
    std::vector<std::vector<int>> blocks(requests);
    const int each = blocks_for(computed + tokens);
    for (int r = 0; r < requests; ++r) {
      pieces.push_back({r, computed, tokens});
      for (int b = 0; b < each; ++b) blocks[r].push_back(b * requests + r);
    }
    return Step(pieces, blocks, kBlockSize);
  }
  // BF16 numbers of either sign around 0.05.
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
  const int requests = static_cast<int>(state.range(1)),
            computed = static_cast<int>(state.range(2)), tokens = static_cast<int>(state.range(3));
  Scene scene(shape, 8, requests, computed, tokens);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  int layer = 0;
  for (auto _ : state) {
    bench().backend->attend(*scene.qkv, shape, scale, *scene.pool, layer, *scene.out);
    layer = (layer + 1) % scene.num_layers;
  }
  double seen = 0;
  for (int i = 0; i < tokens; ++i) seen += computed + i + 1;
  Work work;
  work.bytes = static_cast<double>(scene.pool_bytes()) / scene.num_layers;
  work.working_set = scene.pool_bytes();
  work.flops = 4.0 * requests * seen * shape.num_heads * shape.head_dim;
  report(state, work, bench().all_threads);
}
// Decoding at depth, alone and 16 at a time; a prompt, and a chunk of one.
BENCHMARK(attention)
    ->ArgNames({"shape", "requests", "computed", "tokens"})
    ->ArgsProduct({{0, 1}, {1, 16}, {1024}, {1}})
    ->ArgsProduct({{0, 1}, {1}, {0}, {512}})
    ->ArgsProduct({{0, 1}, {1}, {1024}, {256}})
    ->UseRealTime();

// range(0): the shape; range(1): tokens.
void rope_write(benchmark::State& state) {
  const QkvShape shape = kShapes[state.range(0)];
  const int tokens = static_cast<int>(state.range(1));
  Scene scene(shape, 8, 1, 0, tokens);
  std::vector<float> frequencies;
  for (int i = 0; i < shape.head_dim / 2; ++i)
    frequencies.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / shape.head_dim));
  const auto inv_freq = bench().backend->upload(frequencies);
  const RopeParams rope{inv_freq.get(), 1.0f, shape.head_dim, false};
  int layer = 0;
  for (auto _ : state) {
    bench().backend->rope_write(*scene.qkv, shape, nullptr, nullptr, 0.0f, rope, *scene.pool,
                                layer);
    layer = (layer + 1) % scene.num_layers;
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
