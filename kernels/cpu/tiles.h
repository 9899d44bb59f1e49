#pragma once

#include <cstddef>
#include <cstdint>

// AMX tile registers as the matrix kernels use them. A source includes either tiles_amx.h, the
// instructions, or (tests) a plain C++ twin; both define, for tile numbers known when compiling:
//   tile_configure(config), tile_release()
//   tile_load<T>(base, stride), tile_store<T>(base, stride)   rows `stride` bytes apart
//   tile_zero<T>()
//   tile_dot<C, A, B>()   C[m][n] += sum over k of A[m][k] * B[k / 4][4 * n + k % 4], signed bytes
//   tile_dot_bf16<C, A, B>()   the same of BF16 pairs, B[k / 2][2 * n + k % 2], floats as
//                              panel_kernels.h says
namespace quire::cpu {

inline constexpr int kTileRegisters = 8;
inline constexpr int kTileRowsMost = 16;
inline constexpr int kTileRowBytes = 64;

// Memory operand of ldtilecfg, palette 1 (Intel SDM volume 1, 18.2).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};  // a tile each, at most kTileRowBytes
  std::uint8_t rows[16] = {};        // at most kTileRowsMost

  constexpr void set(int tile, int num_rows = kTileRowsMost, int bytes = kTileRowBytes) {
    rows[tile] = static_cast<std::uint8_t>(num_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

}  // namespace quire::cpu
