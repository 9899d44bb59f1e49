#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_table.h"
#include "kernels/cpu/format.h"
#include "kernels/dtype.h"

// The instruction-set dependent inner loops. Four tables exist (scalar, AVX2, AVX-512, AMX); all
// give the same bits for the same arguments, because they are the same templates over 16 float
// lanes plus integer dot products, which are exact. The scalar one is plain C++ and is the
// definition of the arithmetic. Float operations run with denormals flushed to zero
// (FlushDenormals).
namespace quire::cpu {

// Activation rows as matrix kernels read them. Quantised weights use 8-bit values in blocks of 32,
// with x ~ scale * q and q = round(x * 127 / amax); BF16 weights use x rounded to BF16, F16 and F32
// weights x itself. All arrays but the floats can be read, whatever they hold there, up to
// kReadableRows past the last row.
inline constexpr int kReadableRows = 15;
struct ActivationRows {
  int rows = 0;
  std::int64_t cols = 0;
  const std::int8_t* q = nullptr;           // [rows, cols]
  const float* scale = nullptr;             // [rows, cols / 32]
  const float* scaled_sum = nullptr;        // [rows, cols / 32] scale * sum of q
  const std::int16_t (*sums)[2] = nullptr;  // [rows, cols / 32] sums of q 0-15 and q 16-31
  const float* x = nullptr;                 // [rows, cols]
  const float* rounded = nullptr;           // [rows, cols] to BF16
  const std::uint16_t* bf16 = nullptr;      // [rows, bf16_cols(cols)] the same, zeros after cols
};

// Rows [first, first + count) of `x`. Static: sources for several instruction sets compile it.
static inline ActivationRows rows_of(ActivationRows x, int first, int count) {
  const std::int64_t blocks = x.cols / kBlock;
  x.rows = count;
  if (x.x) x.x += first * x.cols;
  if (x.rounded) x.rounded += first * x.cols;
  if (x.bf16) x.bf16 += first * bf16_cols(x.cols);
  if (x.q) {
    x.q += first * x.cols;
    x.scale += first * blocks;
    x.scaled_sum += first * blocks;
    x.sums += first * blocks;
  }
  return x;
}

// One row of the above, to be filled.
struct QuantisedRow {
  std::int8_t* q = nullptr;
  float* scale = nullptr;
  float* scaled_sum = nullptr;
  std::int16_t (*sums)[2] = nullptr;
};

// Panels that a kernel reads side by side for one row: worth giving it together.
inline constexpr int kPanelsAtOnce = 4;

struct KernelTable {
  const char* name;
  const AttentionKernels* attention;
  // out[count][rows, 16] = activations * panel^T, per weight type, of `count` panels.
  using PanelKernel = void (*)(const std::uint8_t* const* panels, int count,
                               const ActivationRows& x, float* out);
  PanelKernel panel[kNumDTypes];
  void (*quantise_row)(const float* x, std::int64_t cols, const QuantisedRow& out);
  // rounded = x rounded to the nearest BF16, ties to even; may be x.
  void (*round_row)(const float* x, std::int64_t cols, float* rounded);
  bool reads_bf16;  // whether panel kernels read ActivationRows::bf16; else it may be null
  // out = x / sqrt(mean(x^2) + eps) * weight; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t count, float* out);
  // out[i] = act(gate[i]) * up[i]; count is a multiple of 16.
  void (*silu_mul)(const float* gate, const float* up, float* out, std::int64_t count);
  void (*gelu_mul)(const float* gate, const float* up, float* out, std::int64_t count);
  void (*exp)(const float* x, float* out, std::int64_t count);  // count a multiple of 16; for tests
  // For measuring the machine: float32 multiply-adds, `flops_per_round` operations a round; sums of
  // products of BF16 where that is another instruction, else null, and of bytes, as the matrix
  // kernels form them; and reading `count` floats, a multiple of 64, in order.
  int flops_per_round;
  float (*burn_fma)(std::int64_t rounds);
  int bf16_flops_per_round;
  float (*burn_bf16)(std::int64_t rounds);
  int int8_ops_per_round;
  std::int32_t (*burn_int8)(std::int64_t rounds);
  float (*read_sum)(const float* data, std::int64_t count);
  // Gives back what kernels hold between calls (tile registers). Called on each thread after its
  // part of a job; may be null.
  void (*end_job)();
};

const KernelTable& scalar_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& amx_kernels();

}  // namespace quire::cpu
