#include "kernels/cpu/lanes_avx512.h"
// The order matters: the templates use the lanes and the tiles.
#include "kernels/cpu/panel_kernels.h"
#ifndef QUIRE_EMULATED_AVX512  // defined by the test that runs this file on any CPU
#include "kernels/cpu/tiles_amx.h"
#endif
#include "kernels/cpu/panel_kernels_amx.h"

namespace quire::cpu {
namespace {

// With fewer rows than this the AVX-512 kernels are as fast.
constexpr int kFewestTiledRows = 9;

constexpr TileConfig kBlockTiles = block_tiles();
thread_local bool tiles_configured = false;  // as kBlockTiles has them

void release_tiles() {
  if (tiles_configured) tile_release();
  tiles_configured = false;
}

template <DType Type, PackedFormat F>
struct TiledPanel {
  static void run(const std::uint8_t* panel, const ActivationRows& x, float* out) {
    const int last = x.rows % 16;
    const int tiled = last >= kFewestTiledRows ? x.rows : x.rows - last;
    if (tiled > 0) {
      if (!tiles_configured) tile_configure(kBlockTiles);
      tiles_configured = true;
      tiled_panel<F>(panel, rows_of(x, 0, tiled), out);
    }
    if (tiled < x.rows)
      avx512_kernels().panel[static_cast<int>(Type)](panel, rows_of(x, tiled, x.rows - tiled),
                                                     out + tiled * kPanelRows);
  }
};

template <DType Type, PackedFormat F>
void set_panel(KernelTable& table) {
  table.panel[static_cast<int>(Type)] = TiledPanel<Type, F>::run;
}

// Six accumulators and tiles of the full 16 x 64 bytes, which the kernels' blocks half fill.
constexpr TileConfig full_tiles() {
  TileConfig config;
  for (int tile = 0; tile < kTileRegisters; ++tile) config.set(tile, kTileRowsMost, kTileRowBytes);
  return config;
}

constexpr TileConfig kFullTiles = full_tiles();

std::int32_t burn_int8_tiles(std::int64_t rounds) {
  alignas(64) std::int8_t ones[kTileRowsMost * kTileRowBytes];
  for (std::int8_t& one : ones) one = 1;
  tile_configure(kFullTiles);
  unrolled<6>([](auto sum) { tile_zero<sum>(); });
  tile_load<6>(ones, kTileRowBytes);
  tile_load<7>(ones, kTileRowBytes);
  for (std::int64_t r = 0; r < rounds; ++r) unrolled<6>([](auto sum) { tile_dot<sum, 6, 7>(); });
  alignas(64) std::int32_t sums[16][16];
  tile_store<0>(sums, sizeof sums[0]);
  tile_release();
  tiles_configured = false;
  return sums[0][0];
}

KernelTable tiled_table() {
  KernelTable table = avx512_kernels();
  table.name = "amx";
  set_panel<DType::kQ4_0, kPackedQ4_0>(table);
  set_panel<DType::kQ4_1, kPackedQ4_1>(table);
  set_panel<DType::kQ5_0, kPackedQ5_0>(table);
  set_panel<DType::kQ5_1, kPackedQ5_1>(table);
  set_panel<DType::kQ8_0, kPackedQ8_0>(table);
  set_panel<DType::kQ2_K, kPackedQ2_K>(table);
  set_panel<DType::kQ3_K, kPackedQ3_K>(table);
  set_panel<DType::kQ4_K, kPackedQ4_K>(table);
  set_panel<DType::kQ5_K, kPackedQ5_K>(table);
  set_panel<DType::kQ6_K, kPackedQ6_K>(table);
  set_panel<DType::kIQ4_NL, kPackedIQ4_NL>(table);
  set_panel<DType::kIQ4_XS, kPackedIQ4_XS>(table);
  set_panel<DType::kMXFP4, kPackedMXFP4>(table);
  table.int8_ops_per_round = 2 * 6 * 16 * 16 * 64;
  table.burn_int8 = burn_int8_tiles;
  table.end_job = release_tiles;
  return table;
}

}  // namespace

const KernelTable& amx_kernels() {
  static const KernelTable kTable = tiled_table();
  return kTable;
}

}  // namespace quire::cpu
