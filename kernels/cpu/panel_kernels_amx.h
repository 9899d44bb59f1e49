#pragma once

// A panel of 16 output rows times 16 activation rows at a time, the products on AMX tiles: exact
// integers of quantised weights, which AVX-512 scales and adds, and sums of BF16 weights. Include
// after lanes_avx512.h, panel_kernels.h and the tiles. The order of every output is the one
// panel_kernels.h states, so the bits are too.
namespace quire::cpu {
namespace {

// A panel is unpacked to signed bytes this many blocks at a time, for all activation rows. With
// the activations of 16 rows it stays in the first-level cache.
inline constexpr int kChunkBlocks = 32;

// The tiles: two accumulators, each with operands of its own, and operands of half a block.
inline constexpr int kSum = 0, kRowsOperand = 2, kWeightsOperand = 4;  // and the next one
inline constexpr int kHalfRows = 6, kHalfWeights = 7;

constexpr TileConfig block_tiles() {
  TileConfig config;
  for (int i = 0; i < 2; ++i) {
    config.set(kSum + i, 16, 64);
    config.set(kRowsOperand + i, 16, kBlock);
    config.set(kWeightsOperand + i, kBlock / 4, kGroupBytes);
  }
  config.set(kHalfRows, 16, kBlock / 2);
  config.set(kHalfWeights, kBlock / 8, kGroupBytes);
  return config;
}

template <PackedFormat F>
struct UnpackedChunk {
  static constexpr int kScales = F.halves ? 2 : 1;

  alignas(64) std::int8_t weights[kChunkBlocks][kGroups * kGroupBytes];
  Lanes d[kChunkBlocks / F.blocks_per_super()];
  Lanes minimum[kChunkBlocks / F.blocks_per_super()];  // dmin of a K type, else m
  Lanes scales[F.super ? kChunkBlocks : 1][kScales];
  __m512i minimums[F.super && F.min ? kChunkBlocks : 1];  // as BlockScales has them
};

template <PackedFormat F>
inline void unpack_block(const std::uint8_t* block, int index, UnpackedChunk<F>& chunk) {
  if constexpr (F.super) {
    const BlockScales<F> s(block);
    chunk.scales[index][0] = Lanes::from(Ints{s.template of_part<0>()});
    if constexpr (F.halves) chunk.scales[index][1] = Lanes::from(Ints{s.template of_part<1>()});
    if constexpr (F.min) chunk.minimums[index] = s.minimums;
    block += kScaleAreaBytes;
  }
  unrolled<kGroups>([&](auto group) __attribute__((always_inline)) {
    const __m512i stored = stored_weights<F, group>(block);
    _mm512_store_si512(reinterpret_cast<__m512i*>(chunk.weights[index] + kGroupBytes * group),
                       _mm512_sub_epi8(stored, _mm512_set1_epi8(static_cast<char>(kOffset<F>))));
  });
}

// Unpacks `blocks` blocks, whole superblocks of a K type; returns where the next chunk begins.
template <PackedFormat F>
inline const std::uint8_t* unpack(const std::uint8_t* panel, int blocks, UnpackedChunk<F>& chunk) {
  for (int b = 0; b < blocks;) {
    const int super = b / F.blocks_per_super();
    chunk.d[super] = load_scales<F>(panel);
    if constexpr (F.min) chunk.minimum[super] = Lanes::load_half(panel + 2 * kPanelRows);
    panel += F.header_bytes();
    for (int i = 0; i < F.blocks_per_super(); ++i, ++b, panel += F.block_bytes()) {
      for (int line = 0; line < F.block_bytes(); line += 64)
        __builtin_prefetch(panel + kPrefetchBytes + line);
      unpack_block<F>(panel, b, chunk);
    }
  }
  return panel;
}

// The exact dot products of a block, a tile for each of its scales: [scale][activation
// row][output].
using BlockDots = std::int32_t[2][16][16];

// Which: 0 or 1, the set of tiles to use. q: the block's inputs of the first row.
template <PackedFormat F, int Which>
inline void multiply_block(const std::int8_t* weights, const std::int8_t* q, std::int64_t cols,
                           BlockDots& dots) {
  constexpr int kRow = static_cast<int>(sizeof dots[0][0]);
  if constexpr (F.halves) {
    unrolled<2>([&](auto half) __attribute__((always_inline)) {
      tile_zero<kSum + half>();
      tile_load<kHalfRows>(q + half * kBlock / 2, cols);
      tile_load<kHalfWeights>(weights + half * kGroups / 2 * kGroupBytes, kGroupBytes);
      tile_dot<kSum + half, kHalfRows, kHalfWeights>();
      tile_store<kSum + half>(dots[half], kRow);
    });
  } else {
    tile_zero<kSum + Which>();
    tile_load<kRowsOperand + Which>(q, cols);
    tile_load<kWeightsOperand + Which>(weights, kGroupBytes);
    tile_dot<kSum + Which, kRowsOperand + Which, kWeightsOperand + Which>();
    tile_store<kSum + Which>(dots[0], kRow);
  }
}

// A row's dot product with the integer scales in it. Below 2^24 in magnitude whatever the weights
// are, so floats hold it exactly; adding to zero makes a zero positive, as an integer's is.
template <PackedFormat F>
QUIRE_INLINE Lanes scaled_dot(const UnpackedChunk<F>& chunk, int block, const BlockDots& dots,
                              int row) {
  const Lanes first = Lanes::from(Ints{load_bytes(dots[0][row])});
  if constexpr (!F.super) return first;
  const Lanes scaled = fma(first, chunk.scales[block][0], Lanes::zero());
  if constexpr (!F.halves) return scaled;
  return fma(Lanes::from(Ints{load_bytes(dots[1][row])}),
             chunk.scales[block][UnpackedChunk<F>::kScales - 1], scaled);
}

// x: 16 readable rows, their scales and sums at the chunk's first block.
template <PackedFormat F>
QUIRE_INLINE void add_block(const UnpackedChunk<F>& chunk, int block, const BlockDots& dots,
                            const ActivationRows& x, Lanes (&acc)[16]) {
  const std::int64_t stride = x.cols / kBlock;
  const Lanes d = chunk.d[block / F.blocks_per_super()];
  unrolled<16>([&](auto m) __attribute__((always_inline)) {
    const std::int64_t at = m * stride + block;
    const Lanes sa = Lanes::set(x.scale[at]);
    acc[m] = fma(scaled_dot<F>(chunk, block, dots, m), sa * d, acc[m]);
    if constexpr (F.min) {
      const Lanes minimum = chunk.minimum[block / F.blocks_per_super()];
      if constexpr (F.super) {
        const Ints mins{_mm512_madd_epi16(broadcast4(x.sums[at]), chunk.minimums[block])};
        acc[m] = fnma(Lanes::from(mins), sa * minimum, acc[m]);
      } else {
        acc[m] = fma(minimum, Lanes::set(x.scaled_sum[at]), acc[m]);
      }
    }
  });
}

// Adds the chunk's `blocks` blocks to out[rows, 16], rows <= 16; `fresh`: out holds nothing yet.
// The tiles work on a block while the one before it is added.
template <PackedFormat F>
inline void multiply_chunk(const UnpackedChunk<F>& chunk, int blocks, const ActivationRows& x,
                           bool fresh, float* out) {
  alignas(64) BlockDots dots[2];
  Lanes acc[16];
  // Unrolled, or the sums would live in memory.
  unrolled<16>([&](auto m) __attribute__((always_inline)) {
    acc[m] = fresh || m >= x.rows ? Lanes::zero() : Lanes::load(out + m * kPanelRows);
  });
  multiply_block<F, 0>(chunk.weights[0], x.q, x.cols, dots[0]);
  for (int b = 0; b < blocks; b += 2) {
    if (b + 1 < blocks)
      multiply_block<F, 1>(chunk.weights[b + 1], x.q + (b + 1) * kBlock, x.cols, dots[1]);
    add_block<F>(chunk, b, dots[0], x, acc);
    if (b + 1 == blocks) break;
    if (b + 2 < blocks)
      multiply_block<F, 0>(chunk.weights[b + 2], x.q + (b + 2) * kBlock, x.cols, dots[0]);
    add_block<F>(chunk, b + 1, dots[1], x, acc);
  }
  unrolled<16>([&](auto m) __attribute__((always_inline)) {
    if (m < x.rows) acc[m].store(out + m * kPanelRows);
  });
}

// The rows of `x` from block `block` on.
inline ActivationRows from_block(ActivationRows x, std::int64_t block) {
  x.q += block * kBlock;
  x.scale += block;
  x.scaled_sum += block;
  x.sums += block;
  return x;
}

// All rows of `x`.
template <PackedFormat F>
inline void tiled_panel(const std::uint8_t* panel, const ActivationRows& x, float* out) {
  const std::int64_t blocks = x.cols / kBlock;
  UnpackedChunk<F> chunk;
  for (std::int64_t b = 0; b < blocks; b += kChunkBlocks) {
    const int count = blocks - b < kChunkBlocks ? static_cast<int>(blocks - b) : kChunkBlocks;
    panel = unpack<F>(panel, count, chunk);
    for (int row = 0; row < x.rows; row += 16) {
      const ActivationRows rows = rows_of(x, row, x.rows - row < 16 ? x.rows - row : 16);
      multiply_chunk<F>(chunk, count, from_block(rows, b), b == 0, out + row * kPanelRows);
    }
  }
}

// ---- BF16. A panel's step of 32 inputs is a tile as it lies there; no rescaling, so the sums stay
// in their tiles over all inputs.

inline constexpr int kBf16Sums = 6, kBf16Rows = 6, kBf16Weights = 7;  // sums: tiles 0 to 5

constexpr TileConfig full_tiles() {
  TileConfig config;
  for (int tile = 0; tile < kTileRegisters; ++tile) config.set(tile);
  return config;
}

// Tiles * 16 rows from the first of `x` on; out holds x.rows of them.
template <int Tiles>
inline void multiply_bf16(const std::uint8_t* panel, const ActivationRows& x, float* out) {
  const std::int64_t stride = bf16_cols(x.cols);
  unrolled<Tiles>([](auto t) { tile_zero<t>(); });
  for (std::int64_t k = 0; k < stride; k += kBf16Step, panel += kBf16StepBytes) {
    if constexpr (Tiles == 1)
      for (int line = 0; line < kBf16StepBytes; line += 64)
        __builtin_prefetch(panel + kPrefetchBytes + line);
    tile_load<kBf16Weights>(panel, kTileRowBytes);
    unrolled<Tiles>([&](auto t) __attribute__((always_inline)) {
      tile_load<kBf16Rows>(x.bf16 + t * 16 * stride + k, stride * 2);
      tile_dot_bf16<t, kBf16Rows, kBf16Weights>();
    });
  }
  unrolled<Tiles>([&](auto t) __attribute__((always_inline)) {
    constexpr int kRowBytes = kPanelRows * sizeof(float);
    const int rows = x.rows - t * 16;
    float* target = out + t * 16 * kPanelRows;
    if (rows >= 16) {
      tile_store<t>(target, kRowBytes);
    } else {
      alignas(64) float sums[16 * kPanelRows];
      tile_store<t>(sums, kRowBytes);
      __builtin_memcpy(target, sums, static_cast<std::size_t>(rows) * kRowBytes);
    }
  });
}

// All rows of `x`.
template <int Tiles = kBf16Sums>
inline void tiled_bf16_panel(const std::uint8_t* panel, ActivationRows x, float* out) {
  if constexpr (Tiles > 0) {
    for (; x.rows > (Tiles - 1) * 16; out += Tiles * 16 * kPanelRows) {
      multiply_bf16<Tiles>(panel, x, out);
      if (x.rows <= Tiles * 16) return;
      x = rows_of(x, Tiles * 16, x.rows - Tiles * 16);
    }
    tiled_bf16_panel<Tiles - 1>(panel, x, out);
  }
}

}  // namespace
}  // namespace quire::cpu
