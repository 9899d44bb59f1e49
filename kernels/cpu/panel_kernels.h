#pragma once

// A panel of 16 output rows times activation rows, written once over Lanes and block_dots. Include
// after a lanes_*.h.
//
// Order of every output, whatever the instruction set and the number of rows. Quantised: for blocks
// of 32 in ascending order, acc = fma(float(dot), scale * d, acc), dot exact, with a K type's
// integer scale and the offset inside it; then, for types with a minimum, acc = fma(m, scale * sum,
// acc) or, K types, acc = acc - float(sum of minimum * q) * (scale * dmin), fused. F32 and F16: acc
// = fma(w, x, acc) in ascending order of inputs. BF16, as AMX's tdpbf16ps has it (Intel's
// instruction set reference): for steps of 32 inputs in ascending order, acc = acc + (even + odd),
// each a chain of fused multiply-adds from zero over the step's inputs of even and of odd place, x
// rounded to BF16 before.
namespace quire::cpu {
namespace {

inline constexpr int kPrefetchBytes = 2304;
inline constexpr int kBf16StepBytes = kBf16Step * kPanelRows * 2;  // of a panel

template <PackedFormat F>
inline Lanes load_scales(const std::uint8_t* panel) {
  if constexpr (F.bfloat) return Lanes::load_bf16(reinterpret_cast<const std::uint16_t*>(panel));
  return Lanes::load_half(panel);
}

template <PackedFormat F, int Rows>
inline void quantised_tile(const std::uint8_t* panel, const ActivationRows& x, int first,
                           float* out) {
  const std::int64_t blocks = x.cols / kBlock;
  const std::int8_t* q[Rows];
  const std::int16_t(*sums[Rows])[2];
  const float *scale[Rows], *scaled_sum[Rows];
  Lanes acc[Rows];
  for (int m = 0; m < Rows; ++m) {
    q[m] = x.q + (first + m) * x.cols;
    sums[m] = x.sums + (first + m) * blocks;
    scale[m] = x.scale + (first + m) * blocks;
    scaled_sum[m] = x.scaled_sum + (first + m) * blocks;
    acc[m] = Lanes::zero();
  }
  for (std::int64_t b = 0; b < blocks;) {
    const Lanes d = load_scales<F>(panel);
    Lanes minimum = Lanes::zero();
    if constexpr (F.min) minimum = Lanes::load_half(panel + 2 * kPanelRows);
    panel += F.header_bytes();
    for (int i = 0; i < F.blocks_per_super(); ++i, ++b, panel += F.block_bytes()) {
      Ints dots[Rows], mins[Rows];
      // The first rows stream the panel from memory, faster than the hardware prefetcher runs
      // ahead.
      if (first == 0)
        for (int line = 0; line < F.block_bytes(); line += 64)
          __builtin_prefetch(panel + kPrefetchBytes + line);
      block_dots<F, Rows>(panel, q, sums, b, dots, mins);
      for (int m = 0; m < Rows; ++m) {
        const Lanes sa = Lanes::set(scale[m][b]);
        acc[m] = fma(Lanes::from(dots[m]), sa * d, acc[m]);
        if constexpr (F.min && F.super)
          acc[m] = fnma(Lanes::from(mins[m]), sa * minimum, acc[m]);
        else if constexpr (F.min)
          acc[m] = fma(minimum, Lanes::set(scaled_sum[m][b]), acc[m]);
      }
    }
  }
  for (int m = 0; m < Rows; ++m) acc[m].store(out + (first + m) * kPanelRows);
}

struct PlainF32 {
  static constexpr int kBytes = 4;
  static Lanes load(const std::uint8_t* p) {
    return Lanes::load(reinterpret_cast<const float*>(p));
  }
};
struct PlainF16 {
  static constexpr int kBytes = 2;
  static Lanes load(const std::uint8_t* p) { return Lanes::load_half(p); }
};

template <typename Plain, int Rows>
inline void plain_tile(const std::uint8_t* panel, const ActivationRows& x, int first, float* out) {
  const float* rows[Rows];
  Lanes acc[Rows];
  for (int m = 0; m < Rows; ++m) {
    rows[m] = x.x + (first + m) * x.cols;
    acc[m] = Lanes::zero();
  }
  for (std::int64_t k = 0; k < x.cols; ++k, panel += kPanelRows * Plain::kBytes) {
    if (first == 0) __builtin_prefetch(panel + kPrefetchBytes);
    const Lanes w = Plain::load(panel);
    for (int m = 0; m < Rows; ++m) acc[m] = fma(w, Lanes::set(rows[m][k]), acc[m]);
  }
  for (int m = 0; m < Rows; ++m) acc[m].store(out + (first + m) * kPanelRows);
}

// One chain of a step's `count` inputs, for Rows rows: Place 0 the even, 1 the odd ones.
template <int Place, int Rows>
inline void add_bf16_chain(const std::uint8_t* panel, const float* const (&rows)[Rows],
                           std::int64_t k, int count, Lanes (&sum)[Rows]) {
  for (int i = Place; i < count; i += 2, panel += kPanelRows * 2 * 2) {
    const Lanes w = Lanes::load_bf16_of_pairs(panel, Place);
    for (int m = 0; m < Rows; ++m) sum[m] = fma(w, Lanes::set(rows[m][k + i]), sum[m]);
  }
}

// A chain after the other: the sums of both would not fit the registers.
template <int Rows>
inline void bf16_tile(const std::uint8_t* panel, const ActivationRows& x, int first, float* out) {
  const float* rows[Rows];
  Lanes acc[Rows];
  for (int m = 0; m < Rows; ++m) {
    rows[m] = x.rounded + (first + m) * x.cols;
    acc[m] = Lanes::zero();
  }
  for (std::int64_t k = 0; k < x.cols; k += kBf16Step) {
    const int count = x.cols - k < kBf16Step ? static_cast<int>(x.cols - k) : kBf16Step;
    Lanes even[Rows], odd[Rows];
    for (int m = 0; m < Rows; ++m) even[m] = odd[m] = Lanes::zero();
    if (first == 0)
      for (int line = 0; line < kBf16StepBytes; line += 64)
        __builtin_prefetch(panel + kPrefetchBytes + line);
    add_bf16_chain<0, Rows>(panel, rows, k, count, even);
    add_bf16_chain<1, Rows>(panel, rows, k, count, odd);
    for (int m = 0; m < Rows; ++m) acc[m] = acc[m] + (even[m] + odd[m]);
    panel += kBf16StepBytes;
  }
  for (int m = 0; m < Rows; ++m) acc[m].store(out + (first + m) * kPanelRows);
}

// Runs tiles of kTileRows rows (4 or 8), then the remaining rows in smaller ones.
template <template <int> typename Tile>
inline void run_tiles(const std::uint8_t* panel, const ActivationRows& x, float* out) {
  int row = 0;
  for (; row + kTileRows <= x.rows; row += kTileRows) Tile<kTileRows>::run(panel, x, row, out);
  if constexpr (kTileRows > 4)
    for (; row + 4 <= x.rows; row += 4) Tile<4>::run(panel, x, row, out);
  switch (x.rows - row) {
    case 1:
      return Tile<1>::run(panel, x, row, out);
    case 2:
      return Tile<2>::run(panel, x, row, out);
    case 3:
      return Tile<3>::run(panel, x, row, out);
    default:
      return;
  }
}

template <PackedFormat F>
struct QuantisedPanel {
  template <int Rows>
  struct Tile {
    static void run(const std::uint8_t* panel, const ActivationRows& x, int first, float* out) {
      quantised_tile<F, Rows>(panel, x, first, out);
    }
  };
  static void run(const std::uint8_t* panel, const ActivationRows& x, float* out) {
    run_tiles<Tile>(panel, x, out);
  }
};

// Runs tiles of as many rows as have their sums in registers, then one of the rest.
template <template <int> typename Tile, int Rows = kRowsAtOnce>
inline void run_wide_tiles(const std::uint8_t* panel, const ActivationRows& x, float* out,
                           int row = 0) {
  if constexpr (Rows > 0) {
    for (; row + Rows <= x.rows; row += Rows) Tile<Rows>::run(panel, x, row, out);
    if (row < x.rows) run_wide_tiles<Tile, Rows - 1>(panel, x, out, row);
  }
}

template <typename Plain>
struct PlainPanel {
  template <int Rows>
  struct Tile {
    static void run(const std::uint8_t* panel, const ActivationRows& x, int first, float* out) {
      plain_tile<Plain, Rows>(panel, x, first, out);
    }
  };
  static void run(const std::uint8_t* panel, const ActivationRows& x, float* out) {
    run_wide_tiles<Tile>(panel, x, out);
  }
};

struct Bf16Panel {
  template <int Rows>
  struct Tile {
    static void run(const std::uint8_t* panel, const ActivationRows& x, int first, float* out) {
      bf16_tile<Rows>(panel, x, first, out);
    }
  };
  static void run(const std::uint8_t* panel, const ActivationRows& x, float* out) {
    run_wide_tiles<Tile>(panel, x, out);
  }
};

}  // namespace
}  // namespace quire::cpu
