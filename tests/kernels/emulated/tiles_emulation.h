#pragma once

#include <cmath>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/tiles.h"
#include "kernels/dtype.h"

// Each thread's tile registers in plain C++, after the operations in Intel's instruction set
// reference. What would be an exception there fails a check here.
namespace quire::cpu {
namespace {

struct TileUnit {
  bool configured = false;
  TileConfig config;
  std::uint8_t rows[kTileRegisters][kTileRowsMost][kTileRowBytes] = {};
};
thread_local TileUnit tile_unit;

void tile_configure(const TileConfig& config) {
  QUIRE_CHECK(config.palette == 1 && config.start_row == 0, config.palette, config.start_row);
  for (const std::uint8_t byte : config.reserved) QUIRE_CHECK(byte == 0, byte);
  for (int t = 0; t < 16; ++t) {
    QUIRE_CHECK(t < kTileRegisters || config.rows[t] + config.row_bytes[t] == 0, t);
    QUIRE_CHECK(config.rows[t] <= kTileRowsMost && config.row_bytes[t] <= kTileRowBytes, t);
    QUIRE_CHECK((config.rows[t] == 0) == (config.row_bytes[t] == 0), t);
  }
  tile_unit = {true, config, {}};
}

void tile_release() {
  tile_unit = {};
}

int tile_rows(int tile) {
  QUIRE_CHECK(tile_unit.configured && tile_unit.config.rows[tile] > 0, tile);
  return tile_unit.config.rows[tile];
}

template <int T>
void tile_zero() {
  QUIRE_CHECK(tile_rows(T) > 0, T);
  std::memset(tile_unit.rows[T], 0, sizeof tile_unit.rows[T]);
}

template <int T>
void tile_load(const void* base, std::ptrdiff_t stride) {
  tile_zero<T>();
  for (int r = 0; r < tile_rows(T); ++r)
    std::memcpy(tile_unit.rows[T][r], static_cast<const std::uint8_t*>(base) + r * stride,
                tile_unit.config.row_bytes[T]);
}

template <int T>
void tile_store(void* base, std::ptrdiff_t stride) {
  for (int r = 0; r < tile_rows(T); ++r)
    std::memcpy(static_cast<std::uint8_t*>(base) + r * stride, tile_unit.rows[T][r],
                tile_unit.config.row_bytes[T]);
}

template <int C, int A, int B>
void check_shapes() {
  static_assert(C != A && C != B && A != B);
  const TileConfig& config = tile_unit.config;
  QUIRE_CHECK(tile_rows(A) == tile_rows(C), A, C);
  QUIRE_CHECK(config.row_bytes[B] == config.row_bytes[C] && config.row_bytes[C] % 4 == 0, B, C);
  QUIRE_CHECK(tile_rows(B) * 4 == config.row_bytes[A], A, B);
}

template <int C, int A, int B>
void tile_dot() {
  check_shapes<C, A, B>();
  const TileConfig& config = tile_unit.config;
  for (int m = 0; m < tile_rows(C); ++m)
    for (int n = 0; n < config.row_bytes[C] / 4; ++n) {
      std::uint32_t sum;
      std::memcpy(&sum, tile_unit.rows[C][m] + 4 * n, 4);
      for (int k = 0; k < config.row_bytes[A]; ++k) {
        const auto a = static_cast<std::int8_t>(tile_unit.rows[A][m][k]);
        const auto b = static_cast<std::int8_t>(tile_unit.rows[B][k / 4][4 * n + k % 4]);
        sum += static_cast<std::uint32_t>(a * b);
      }
      std::memcpy(tile_unit.rows[C][m] + 4 * n, &sum, 4);
    }
}

inline float bf16_at(const std::uint8_t* row, int index) {
  std::uint16_t bits;
  std::memcpy(&bits, row + 2 * index, 2);
  return bf16_to_float(bits);
}

template <int C, int A, int B>
void tile_dot_bf16() {
  check_shapes<C, A, B>();
  const FlushDenormals flush;
  for (int m = 0; m < tile_rows(C); ++m)
    for (int n = 0; n < tile_unit.config.row_bytes[C] / 4; ++n) {
      float sums[2] = {}, total;
      for (int k = 0; k < tile_unit.config.row_bytes[A] / 2; ++k) {
        const float b = bf16_at(tile_unit.rows[B][k / 2], 2 * n + k % 2);
        sums[k % 2] = std::fma(bf16_at(tile_unit.rows[A][m], k), b, sums[k % 2]);
      }
      std::memcpy(&total, tile_unit.rows[C][m] + 4 * n, 4);
      total += sums[0] + sums[1];
      std::memcpy(tile_unit.rows[C][m] + 4 * n, &total, 4);
    }
}

}  // namespace
}  // namespace quire::cpu
