#pragma once

#include <vector>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear_plan.h"
#include "kernels/cpu/storage.h"

namespace quire::cpu {

// Rows to be multiplied: row i starts at `rows[i]`, or at `first + i * stride` when rows is null.
struct RowSource {
  const float* first = nullptr;
  std::int64_t stride = 0;
  const float* const* rows = nullptr;
  int count = 0;

  const float* row(int index) const { return rows ? rows[index] : first + index * stride; }
};

// Matrix products over the thread pool. prepare() brings a set of rows into the form a matrix needs
// (normalised, quantised), once for everything that reads them; the products that follow use it.
class Linear {
 public:
  Linear(const KernelTable& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {}

  // norm_weight null: the rows as they are.
  void prepare(const RowSource& source, const CpuMatrix& weight, const float* norm_weight,
               float eps);

  // Hands every output to `store(row, column, values, count)`: `count` <= 16 consecutive outputs of
  // one prepared row. Called from all threads, once per output.
  template <typename Store>
  void multiply(const CpuMatrix& weight, const Store& store) {
    const LinearPlan plan = plan_of(weight, weight.rows());
    pool_.run(plan.items(), [&](int item, int thread) {
      plan.visit(item, [&](int first, int rows, std::int64_t column, int count) {
        float* tile = tiles(thread);
        outputs(weight, column, count, first, rows, tile);
        for (int i = 0; i < rows; ++i) store(first + i, column, tile + i * kPanelRows, count);
      });
    });
  }

  // The same for act(gate) * up, where gate is the upper half of the matrix and up the lower.
  template <typename Store>
  void multiply_gated(const CpuMatrix& weight, Activation activation, const Store& store) {
    const std::int64_t half = weight.rows() / 2;
    const auto gated = activation == Activation::kSiluMul ? kernels_.silu_mul : kernels_.gelu_mul;
    const LinearPlan plan = plan_of(weight, half);
    pool_.run(plan.items(), [&](int item, int thread) {
      plan.visit(item, [&](int first, int rows, std::int64_t column, int count) {
        float* gate = tiles(thread);
        float* up = gate + kMaxRows * kPanelRows;
        outputs(weight, column, count, first, rows, gate);
        outputs(weight, half + column, count, first, rows, up);
        gated(gate, up, gate, rows * kPanelRows);
        for (int i = 0; i < rows; ++i) store(first + i, column, gate + i * kPanelRows, count);
      });
    });
  }

 private:
  static constexpr int kMaxRows = 256;  // of activations in one item

  LinearPlan plan_of(const CpuMatrix& weight, std::int64_t outputs) const;
  // tile[rows, 16] = outputs [column, column + count) of prepared rows [first, first + rows).
  void outputs(const CpuMatrix& weight, std::int64_t column, int count, int first, int rows,
               float* tile) const;
  void panel(const CpuMatrix::Part& part, std::int64_t index, int first, int rows,
             float* tile) const;
  void reserve(const CpuMatrix& weight, int rows);
  void reserve_quantised(int rows, std::int64_t cols);
  void prepare_row(const float* source, int row, const float* norm_weight, float eps, int thread);
  void quantise(const float* values, int row);
  void round(const float* values, int row);
  float* tiles(int thread) {
    return tiles_.as<float>() + static_cast<std::size_t>(thread) * 2 * kMaxRows * kPanelRows;
  }

  const KernelTable& kernels_;
  ThreadPool& pool_;
  ActivationRows prepared_;  // of what the weights need, the arrays below
  AlignedBytes q_, scales_, scaled_sums_, sums_, rounded_, bf16_, floats_;
  AlignedBytes normed_;  // [threads, cols] for rows whose floats are not kept
  AlignedBytes tiles_;
};

}  // namespace quire::cpu
