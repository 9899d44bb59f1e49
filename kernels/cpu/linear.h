#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/linear_plan.h"
#include "kernels/cpu/prepared_rows.h"
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
    const LinearPlan plan = plan_of(weight, weight.rows(), kPanelsAtOnce);
    pool_.run(plan.items(), [&](int item, int thread) {
      plan.visit(item, [&](int first, int rows, const LinearPlan::Columns& columns) {
        float* tile = tiles(thread);
        Slices slices;
        slices.add(columns, 0, weight.rows());
        outputs(weight, slices, first, rows, tile);
        store_rows(slices, columns.count, first, rows, tile, store);
      });
    });
  }

  // The same for act(gate) * up, where gate is the upper half of the matrix and up the lower.
  template <typename Store>
  void multiply_gated(const CpuMatrix& weight, Activation activation, const Store& store) {
    const std::int64_t half = weight.rows() / 2;
    const auto gated = activation == Activation::kSiluMul ? kernels_.silu_mul : kernels_.gelu_mul;
    const LinearPlan plan = plan_of(weight, half, kPanelsAtOnce / 2);
    pool_.run(plan.items(), [&](int item, int thread) {
      plan.visit(item, [&](int first, int rows, const LinearPlan::Columns& columns) {
        float* gate = tiles(thread);
        const int values = columns.count * rows * kPanelRows;
        Slices slices;
        slices.add(columns, 0, half);
        slices.add(columns, half, half);
        outputs(weight, slices, first, rows, gate);
        gated(gate, gate + values, gate, values);
        store_rows(slices, columns.count, first, rows, gate, store);
      });
    });
  }

 private:
  static constexpr int kMaxRows = 256;  // of activations in one item

  // Up to 16 consecutive outputs each, worked on together.
  struct Slices {
    std::int64_t first[kPanelsAtOnce];
    int outputs[kPanelsAtOnce];
    int count = 0;

    // Those of `columns` of a matrix's `size` outputs from `base` on.
    void add(const LinearPlan::Columns& columns, std::int64_t base, std::int64_t size) {
      for (int i = 0; i < columns.count; ++i, ++count) {
        const std::int64_t at = (columns.first + i * columns.stride) * kPanelRows;
        first[count] = base + at;
        outputs[count] = static_cast<int>(std::min<std::int64_t>(kPanelRows, size - at));
      }
    }
  };

  LinearPlan plan_of(const CpuMatrix& weight, std::int64_t outputs, int streams) const;
  // tile[slices.count][rows, 16] = the slices' outputs of prepared rows [first, first + rows).
  void outputs(const CpuMatrix& weight, const Slices& slices, int first, int rows,
               float* tile) const;
  struct Panels {
    DType dtype = DType::kF32;
    int count = 0;
    const std::uint8_t* data[kPanelsAtOnce];
  };
  // Those of the slices from `next` on, as long as each is one whole panel of the same type.
  static Panels whole_panels(const CpuMatrix& weight, const Slices& slices, int next);
  // Outputs that straddle panels.
  void straddling(const CpuMatrix& weight, std::int64_t first_output, int count,
                  const ActivationRows& x, float* tile) const;
  // Of the first `count` slices.
  template <typename Store>
  static void store_rows(const Slices& slices, int count, int first, int rows, float* tile,
                         const Store& store) {
    for (int slice = 0; slice < count; ++slice)
      for (int i = 0; i < rows; ++i, tile += kPanelRows)
        store(first + i, slices.first[slice], tile, slices.outputs[slice]);
  }
  void reserve(const CpuMatrix& weight, int rows);
  void prepare_row(const float* source, int row, const float* norm_weight, float eps, int thread);
  float* tiles(int thread) {
    return tiles_.as<float>() + static_cast<std::size_t>(thread) * 2 * kMaxRows * kPanelRows;
  }

  const KernelTable& kernels_;
  ThreadPool& pool_;
  PreparedRows prepared_;
  AlignedBytes normed_;  // [threads, cols] for rows whose floats are not kept
  AlignedBytes tiles_;
};

}  // namespace quire::cpu
