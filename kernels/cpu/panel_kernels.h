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

// Inputs that a tile of rows works on before the next tile does: what it reads of them stays in the
// first-level cache. Whole steps of BF16.
inline constexpr std::int64_t kWideInputs = 256;

// Sums of a tile of rows so far, fresh at input 0. Loops over rows are unrolled here and below, or
// g++ keeps the sums of six rows in memory.
template <int Rows>
QUIRE_INLINE void load_sums(const float* out, std::int64_t k, Lanes (&acc)[Rows]) {
  unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
    acc[m] = k == 0 ? Lanes::zero() : Lanes::load(out + m * kPanelRows);
  });
}
template <int Rows>
QUIRE_INLINE void store_sums(const Lanes (&acc)[Rows], float* out) {
  unrolled<Rows>([&](auto m)
                     __attribute__((always_inline)) { acc[m].store(out + m * kPanelRows); });
}

// One chain of a step's `count` inputs, for Rows rows: Place 0 the even, 1 the odd ones.
template <int Place, int Rows>
QUIRE_INLINE void add_bf16_chain(const std::uint8_t* panel, const float* const (&rows)[Rows],
                                 std::int64_t k, int count, Lanes (&sum)[Rows]) {
  for (int i = Place; i < count; i += 2, panel += kPanelRows * 2 * 2) {
    const Lanes w = Lanes::load_bf16_of_pairs(panel, Place);
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
      sum[m] = fma(w, Lanes::set(rows[m][k + i]), sum[m]);
    });
  }
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
template <typename Kernel, int Rows = kRowsAtOnce>
inline void run_wide_tiles(const std::uint8_t* panel, const ActivationRows& x, std::int64_t k,
                           std::int64_t end, float* out, int row = 0) {
  if constexpr (Rows > 0) {
    for (; row + Rows <= x.rows; row += Rows)
      Kernel::template tile<Rows>(panel, x, row, k, end, out + row * kPanelRows);
    if (row < x.rows) run_wide_tiles<Kernel, Rows - 1>(panel, x, k, end, out, row);
  }
}

template <typename Kernel>
inline void run_wide(const std::uint8_t* panel, const ActivationRows& x, float* out) {
  const std::int64_t inputs = x.rows > kRowsAtOnce ? kWideInputs : x.cols;
  for (std::int64_t k = 0; k < x.cols; k += inputs, panel += inputs * kPanelRows * Kernel::kBytes)
    run_wide_tiles<Kernel>(panel, x, k, k + inputs < x.cols ? k + inputs : x.cols, out);
}

template <typename Plain>
struct PlainPanel {
  static constexpr int kBytes = Plain::kBytes;
  // Adds inputs [k, end) to out[Rows, 16]; panel: at input k.
  template <int Rows>
  static void tile(const std::uint8_t* panel, const ActivationRows& x, int first, std::int64_t k,
                   std::int64_t end, float* out) {
    const float* rows[Rows];
    Lanes acc[Rows];
    for (int m = 0; m < Rows; ++m) rows[m] = x.x + (first + m) * x.cols;
    load_sums(out, k, acc);
    for (; k < end; ++k, panel += kPanelRows * Plain::kBytes) {
      if (first == 0) __builtin_prefetch(panel + kPrefetchBytes);
      const Lanes w = Plain::load(panel);
      unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
        acc[m] = fma(w, Lanes::set(rows[m][k]), acc[m]);
      });
    }
    store_sums(acc, out);
  }
  static void run(const std::uint8_t* panel, const ActivationRows& x, float* out) {
    run_wide<PlainPanel>(panel, x, out);
  }
};

struct Bf16Panel {
  static constexpr int kBytes = 2;
  // A chain after the other: the sums of both would not fit the registers.
  template <int Rows>
  static void tile(const std::uint8_t* panel, const ActivationRows& x, int first, std::int64_t k,
                   std::int64_t end, float* out) {
    const float* rows[Rows];
    Lanes acc[Rows];
    for (int m = 0; m < Rows; ++m) rows[m] = x.rounded + (first + m) * x.cols;
    load_sums(out, k, acc);
    for (; k < end; k += kBf16Step, panel += kBf16StepBytes) {
      const int count = end - k < kBf16Step ? static_cast<int>(end - k) : kBf16Step;
      Lanes even[Rows], odd[Rows];
      unrolled<Rows>([&](auto m)
                         __attribute__((always_inline)) { even[m] = odd[m] = Lanes::zero(); });
      if (first == 0)
        for (int line = 0; line < kBf16StepBytes; line += 64)
          __builtin_prefetch(panel + kPrefetchBytes + line);
      add_bf16_chain<0, Rows>(panel, rows, k, count, even);
      add_bf16_chain<1, Rows>(panel, rows, k, count, odd);
      unrolled<Rows>([&](auto m)
                         __attribute__((always_inline)) { acc[m] = acc[m] + (even[m] + odd[m]); });
    }
    store_sums(acc, out);
  }
  static void run(const std::uint8_t* panel, const ActivationRows& x, float* out) {
    run_wide<Bf16Panel>(panel, x, out);
  }
};

}  // namespace
}  // namespace quire::cpu
