// Matrix products of every weight type, and the head.
#include <cstring>

#include "kernels/cpu/format.h"
#include "tests/bench/bench.h"
#include "tests/kernels/kernel_fixtures.h"

namespace quire::test {
namespace {

constexpr int kSide = 1536;                                // outputs and inputs of a matrix
constexpr std::size_t kStreamed = std::size_t{128} << 20;  // more than the caches hold
constexpr std::size_t kCached = std::size_t{4} << 20;      // when operations decide

// Copies of one random matrix, in turn: each is read from where a model's would be.
struct Matrices {
  std::vector<std::unique_ptr<Matrix>> copies;
  std::size_t bytes = 0;

  Matrices(DType dtype, int rows, int cols, std::size_t total) {
    Random random(1);
    const StoredMatrix stored(dtype, rows, cols, random);
    const MatrixView view = stored.view();
    do {
      copies.push_back(bench().backend->pack({&view, 1}));
      bytes += copies.back()->bytes();
    } while (bytes + copies.back()->bytes() <= total);
  }
  const Matrix& at(std::size_t index) const { return *copies[index % copies.size()]; }
};

Step rows_step(int rows) {
  return Step({{0, 0, rows}}, {std::vector<int>(static_cast<std::size_t>(rows) / 16 + 1)}, 16);
}

Work work_of(DType dtype, const Matrix& matrix, int rows, std::size_t working_set) {
  const double values = static_cast<double>(rows) * (matrix.rows() + matrix.cols());
  const double ops = 2.0 * rows * static_cast<double>(matrix.rows() * matrix.cols());
  Work work;
  work.bytes = static_cast<double>(matrix.bytes()) + 4 * values;
  work.working_set = working_set;
  (cpu::is_quantised(dtype) ? work.int8_ops
   : dtype == DType::kBF16  ? work.bf16_flops
                            : work.flops) = ops;
  return work;
}

// range(0): the type; range(1): rows of activations.
void linear(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  const int rows = static_cast<int>(state.range(1));
  Backend& backend = *bench().backend;
  Random random(2);
  const Matrices matrices(dtype, kSide, kSide, rows <= 16 ? kStreamed : kCached);
  const auto input = backend.allocate(rows, kSide), output = backend.allocate(rows, kSide);
  Step step = rows_step(rows);
  set_rows(backend, step, *input, random.normals(static_cast<std::size_t>(rows) * kSide));
  backend.begin_step(step.view());
  std::size_t next = 0;
  for (auto _ : state) backend.linear_add(*input, matrices.at(next++), nullptr, *output);
  backend.end_step();
  state.SetLabel(std::string(dtype_info(dtype).name));
  report(state, work_of(dtype, matrices.at(0), rows, matrices.bytes), bench().all_threads);
}

void every_type(benchmark::internal::Benchmark* b) {
  for (int dtype = 0; dtype < kNumDTypes; ++dtype)
    for (const int rows : {1, 4, 16, 64, 512}) b->Args({dtype, rows});
}
BENCHMARK(linear)->Apply(every_type)->UseRealTime();

// range(0): the type; range(1): rows that are sampled; range(2) = 1: their logits, else the largest
// only. Starter model's shape.
void head(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  const int rows = static_cast<int>(state.range(1)), vocab = 49152, hidden = 576;
  const bool all_logits = state.range(2) == 1;
  Backend& backend = *bench().backend;
  Random random(3);
  const Matrices matrices(dtype, vocab, hidden, kStreamed);
  const auto input = backend.allocate(rows, hidden);
  const auto norm = backend.upload(random.normals(hidden));
  Step step = rows_step(rows);
  set_rows(backend, step, *input, random.normals(static_cast<std::size_t>(rows) * hidden));
  std::vector<std::int32_t> sampled(rows);
  for (int i = 0; i < rows; ++i) sampled[i] = i;
  std::vector<float> logits(static_cast<std::size_t>(rows) * vocab);
  backend.begin_step(step.view());
  std::size_t next = 0;
  const auto places =
      all_logits ? places_of(logits, sampled.size()) : std::vector<float*>(sampled.size());
  std::vector<LargestLogit> largest(sampled.size());
  for (auto _ : state)
    backend.head(*input, {sampled, places, largest}, *norm, 1e-5f, matrices.at(next++));
  backend.end_step();
  state.SetLabel(std::string(dtype_info(dtype).name));
  report(state, work_of(dtype, matrices.at(0), rows, matrices.bytes), bench().all_threads);
}
BENCHMARK(head)
    ->ArgsProduct({{static_cast<int>(DType::kQ8_0), static_cast<int>(DType::kBF16)},
                   {1, 16, 64},
                   {0, 1}})
    ->UseRealTime();

}  // namespace
}  // namespace quire::test
