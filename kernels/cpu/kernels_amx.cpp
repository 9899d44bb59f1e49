#include "kernels/cpu/lanes_avx512.h"
// The order matters: the templates use the lanes and the tiles.
#include "kernels/cpu/attention_scores.h"
#include "kernels/cpu/panel_kernels.h"
#ifndef QUIRE_EMULATED_AVX512  // defined by the test that runs this file on any CPU
#include "kernels/cpu/tiles_amx.h"
#endif
#include "kernels/cpu/attention_kernels_amx.h"
#include "kernels/cpu/panel_kernels_amx.h"

namespace quire::cpu {
namespace {

// With fewer rows than this the AVX-512 kernels are as fast. A tile of BF16 takes about the cycles
// of one row's multiply-adds.
constexpr int kFewestTiledRows = 9, kFewestBf16Rows = 2;

constexpr TileConfig kBlockTiles = block_tiles(), kFullTiles = full_tiles();
thread_local const TileConfig* configured = nullptr;  // as this thread's tiles are

void need_tiles(const TileConfig& config) {
  if (configured != &config) tile_configure(config);
  configured = &config;
}

void release_tiles() {
  if (configured) tile_release();
  configured = nullptr;
}

void avx512_panels(DType dtype, const std::uint8_t* const* panels, int count,
                   const ActivationRows& x, float* out) {
  avx512_kernels().panel[static_cast<int>(dtype)](panels, count, x, out);
}

template <DType Type, PackedFormat F>
struct TiledPanel {
  static void run(const std::uint8_t* const* panels, int count, const ActivationRows& x,
                  float* out) {
    if (x.rows < kFewestTiledRows) return avx512_panels(Type, panels, count, x, out);
    const int last = x.rows % 16;
    const int tiled = last >= kFewestTiledRows ? x.rows : x.rows - last;
    need_tiles(kBlockTiles);
    for (int p = 0; p < count; ++p, out += x.rows * kPanelRows) {
      tiled_panel<F>(panels[p], rows_of(x, 0, tiled), out);
      if (tiled < x.rows)
        avx512_panels(Type, panels + p, 1, rows_of(x, tiled, x.rows - tiled),
                      out + tiled * kPanelRows);
    }
  }
};

void tiled_bf16(const std::uint8_t* const* panels, int count, const ActivationRows& x, float* out) {
  if (x.rows < kFewestBf16Rows) return avx512_panels(DType::kBF16, panels, count, x, out);
  need_tiles(kFullTiles);
  for (int p = 0; p < count; ++p) tiled_bf16_panel(panels[p], x, out + p * x.rows * kPanelRows);
}

void tiled_attention(const SpanArgs& args) {
  bool done = false;
  if (args.queries * args.group >= kFewestAttentionRows && args.head_dim % kPairStep == 0) {
    need_tiles(kFullTiles);
    done = attend_span_tiles(args);
  }
  if (!done) kAvx512Attention.attend_span[static_cast<int>(KvDType::kBF16)](args);
}

AttentionKernels attention_on_tiles() {
  AttentionKernels kernels = kAvx512Attention;
  kernels.attend_span[static_cast<int>(KvDType::kBF16)] = tiled_attention;
  kernels.round_queries = round_and_pack_queries;
  return kernels;
}

template <DType Type, PackedFormat F>
void set_panel(KernelTable& table) {
  table.panel[static_cast<int>(Type)] = TiledPanel<Type, F>::run;
}

// Six accumulators and tiles of the full 16 x 64 bytes, which the quantised blocks half fill.
// dot(sum): what is measured.
template <typename Sum, typename Dot>
Sum burn_tiles(std::int64_t rounds, Dot dot) {
  alignas(64) std::uint8_t operand[kTileRowsMost * kTileRowBytes];
  for (std::uint8_t& byte : operand) byte = 1;
  need_tiles(kFullTiles);
  unrolled<6>([](auto sum) { tile_zero<sum>(); });
  tile_load<6>(operand, kTileRowBytes);
  tile_load<7>(operand, kTileRowBytes);
  for (std::int64_t r = 0; r < rounds; ++r) unrolled<6>(dot);
  alignas(64) Sum sums[16][16];
  tile_store<0>(sums, sizeof sums[0]);
  release_tiles();
  return sums[0][0];
}

float burn_bf16_tiles(std::int64_t rounds) {
  return burn_tiles<float>(rounds, [](auto sum) { tile_dot_bf16<sum, 6, 7>(); });
}
std::int32_t burn_int8_tiles(std::int64_t rounds) {
  return burn_tiles<std::int32_t>(rounds, [](auto sum) { tile_dot<sum, 6, 7>(); });
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
  table.panel[static_cast<int>(DType::kBF16)] = tiled_bf16;
  static const AttentionKernels kAttention = attention_on_tiles();
  table.attention = &kAttention;
  table.reads_bf16 = true;
  table.bf16_flops_per_round = 2 * 6 * 16 * 16 * 32;
  table.burn_bf16 = burn_bf16_tiles;
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
