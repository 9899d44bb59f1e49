#include "kernels/cpu/prepared_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace quire::cpu {
namespace {

template <typename T>
T* room(AlignedBytes& bytes, std::size_t count) {
  bytes.reserve(count * sizeof(T));
  return bytes.as<T>();
}

}  // namespace

void PreparedRows::reserve(int rows, std::int64_t cols, const RowForms& forms) {
  const std::size_t own = static_cast<std::size_t>(rows) * cols;
  const std::size_t readable_rows = static_cast<std::size_t>(rows) + kReadableRows;
  const std::size_t blocks = readable_rows * cols / kBlock;
  view_ = {};
  view_.rows = rows;
  view_.cols = cols;
  if (forms.floats) view_.x = room<float>(floats_, own);
  if (forms.rounded) view_.rounded = room<float>(rounded_, own);
  if (forms.bf16) view_.bf16 = room<std::uint16_t>(bf16_, readable_rows * bf16_cols(cols));
  if (!forms.quantised) return;
  view_.q = room<std::int8_t>(q_, readable_rows * cols);
  view_.scale = room<float>(scales_, blocks);
  view_.scaled_sum = room<float>(scaled_sums_, blocks);
  view_.sums = room<std::int16_t[2]>(sums_, blocks);
}

float* PreparedRows::floats(int row) {
  return view_.x ? floats_.as<float>() + row * view_.cols : nullptr;
}

void PreparedRows::prepare(const KernelTable& kernels, const float* values, int row) {
  float* kept = floats(row);
  if (kept && kept != values) std::memcpy(kept, values, view_.cols * sizeof(float));
  if (view_.q) quantise(kernels, values, row);
  if (view_.rounded) round(kernels, values, row);
}

void PreparedRows::quantise(const KernelTable& kernels, const float* values, int row) {
  const std::int64_t cols = view_.cols, block = row * (cols / kBlock);
  kernels.quantise_row(values, cols,
                       {q_.as<std::int8_t>() + row * cols, scales_.as<float>() + block,
                        scaled_sums_.as<float>() + block, sums_.as<std::int16_t[2]>() + block});
}

void PreparedRows::round(const KernelTable& kernels, const float* values, int row) {
  const std::int64_t cols = view_.cols, padded = bf16_cols(cols);
  float* rounded = rounded_.as<float>() + row * cols;
  kernels.round_row(values, cols, rounded);
  if (!view_.bf16) return;
  std::uint16_t* bits = bf16_.as<std::uint16_t>() + row * padded;
  for (std::int64_t i = 0; i < cols; ++i)
    bits[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded[i]) >> 16);
  std::fill(bits + cols, bits + padded, std::uint16_t{0});
}

}  // namespace quire::cpu
