#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/memory.h"

namespace quire::cpu {

// The arrays of ActivationRows that a product's weights need.
struct RowForms {
  bool floats = false;     // x
  bool rounded = false;    // rounded
  bool bf16 = false;       // bf16
  bool quantised = false;  // q, scale, scaled_sum, sums; for columns that are a multiple of 32
};

// Rows of activations in the forms that products read, and the memory they lie in.
class PreparedRows {
 public:
  // Makes room; what the rows hold, those past the last one included, is undefined until prepared.
  void reserve(int rows, std::int64_t cols, const RowForms& forms);
  // Brings values[cols] into `row`. Threads may prepare different rows at a time.
  void prepare(const KernelTable& kernels, const float* values, int row);
  // Where prepare() keeps a row's floats, and may be given them; null when that is no form asked
  // for.
  float* floats(int row);
  // As reserved; valid until the next reserve().
  const ActivationRows& view() const { return view_; }

 private:
  void quantise(const KernelTable& kernels, const float* values, int row);
  void round(const KernelTable& kernels, const float* values, int row);

  ActivationRows view_;
  AlignedBytes floats_, rounded_, bf16_, q_, scales_, scaled_sums_, sums_;
};

}  // namespace quire::cpu
