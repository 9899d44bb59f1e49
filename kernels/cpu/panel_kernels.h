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

// The first rows of one panel stream it from memory, faster than the hardware prefetcher runs
// ahead; beside others, where that one is enough, a panel's next block is on its way.
inline constexpr int kPrefetchBytes = 2304;
template <int Panels, int Block>
inline constexpr int kPrefetchedAhead = Panels == 1 ? kPrefetchBytes : Block;
inline constexpr int kBf16StepBytes = kBf16Step * kPanelRows * 2;  // of a panel

template <PackedFormat F>
inline Lanes load_scales(const std::uint8_t* panel) {
  if constexpr (F.bfloat) return Lanes::load_bf16(reinterpret_cast<const std::uint16_t*>(panel));
  return Lanes::load_half(panel);
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

// Of a panel type P below, P::tile<Rows, Panels>(panels, x, first, out) makes out[Panels][x.rows,
// 16] for Rows rows from `first` on.

// One row: memory decides, and it gives more when panels are read side by side, a few lines of each
// in turn. (More rows have too many sums for that.)
template <typename P, int Panels = kPanelsAtOnce>
inline void run_row(const std::uint8_t* const* panels, int count, const ActivationRows& x,
                    float* out) {
  if constexpr (Panels > 0) {
    for (; count >= Panels; count -= Panels, panels += Panels, out += Panels * kPanelRows)
      P::template tile<1, Panels>(panels, x, 0, out);
    run_row<P, Panels / 2>(panels, count, x, out);
  }
}

// Runs tiles of kTileRows rows (4 or 8), then the remaining rows in smaller ones.
template <typename P>
inline void run_tiles(const std::uint8_t* const* panel, const ActivationRows& x, float* out) {
  int row = 0;
  for (; row + kTileRows <= x.rows; row += kTileRows)
    P::template tile<kTileRows, 1>(panel, x, row, out);
  if constexpr (kTileRows > 4)
    for (; row + 4 <= x.rows; row += 4) P::template tile<4, 1>(panel, x, row, out);
  switch (x.rows - row) {
    case 1:
      return P::template tile<1, 1>(panel, x, row, out);
    case 2:
      return P::template tile<2, 1>(panel, x, row, out);
    case 3:
      return P::template tile<3, 1>(panel, x, row, out);
    default:
      return;
  }
}

template <PackedFormat F>
struct QuantisedPanel {
  template <int Rows, int Panels>
  static void tile(const std::uint8_t* const* panels, const ActivationRows& x, int first,
                   float* out) {
    const std::int64_t blocks = x.cols / kBlock;
    const std::int8_t* q[Rows];
    const std::int16_t(*sums[Rows])[2];
    const float *scale[Rows], *scaled_sum[Rows];
    Lanes acc[Panels][Rows];
    for (int m = 0; m < Rows; ++m) {
      q[m] = x.q + (first + m) * x.cols;
      sums[m] = x.sums + (first + m) * blocks;
      scale[m] = x.scale + (first + m) * blocks;
      scaled_sum[m] = x.scaled_sum + (first + m) * blocks;
      for (int p = 0; p < Panels; ++p) acc[p][m] = Lanes::zero();
    }
    std::int64_t at = 0;  // in the panels
    for (std::int64_t b = 0; b < blocks;) {
      Lanes d[Panels], minimum[Panels];
      unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
        d[p] = load_scales<F>(panels[p] + at);
        if constexpr (F.min) minimum[p] = Lanes::load_half(panels[p] + at + 2 * kPanelRows);
      });
      at += F.header_bytes();
      for (int i = 0; i < F.blocks_per_super(); ++i, ++b, at += F.block_bytes()) {
        unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
          const std::uint8_t* block = panels[p] + at;
          Ints dots[Rows], mins[Rows];
          if (first == 0)
            for (int line = 0; line < F.block_bytes(); line += 64)
              __builtin_prefetch(block + kPrefetchedAhead<Panels, F.block_bytes()> + line);
          block_dots<F, Rows>(block, q, sums, b, dots, mins);
          for (int m = 0; m < Rows; ++m) {
            const Lanes sa = Lanes::set(scale[m][b]);
            acc[p][m] = fma(Lanes::from(dots[m]), sa * d[p], acc[p][m]);
            if constexpr (F.min && F.super)
              acc[p][m] = fnma(Lanes::from(mins[m]), sa * minimum[p], acc[p][m]);
            else if constexpr (F.min)
              acc[p][m] = fma(minimum[p], Lanes::set(scaled_sum[m][b]), acc[p][m]);
          }
        });
      }
    }
    for (int p = 0; p < Panels; ++p)
      for (int m = 0; m < Rows; ++m) acc[p][m].store(out + (p * x.rows + first + m) * kPanelRows);
  }

  static void run(const std::uint8_t* const* panels, int count, const ActivationRows& x,
                  float* out) {
    if (x.rows == 1) return run_row<QuantisedPanel>(panels, count, x, out);
    for (int p = 0; p < count; ++p)
      run_tiles<QuantisedPanel>(panels + p, x, out + p * x.rows * kPanelRows);
  }
};

// Runs tiles of as many rows as have their sums in registers, then one of the rest.
template <typename Kernel, int Rows = kRowsAtOnce>
inline void run_wide_tiles(const std::uint8_t* const* panel, const ActivationRows& x,
                           std::int64_t k, std::int64_t end, float* out, int row = 0) {
  if constexpr (Rows > 0) {
    for (; row + Rows <= x.rows; row += Rows)
      Kernel::template tile<Rows, 1>(panel, x, row, k, end, out);
    if (row < x.rows) run_wide_tiles<Kernel, Rows - 1>(panel, x, k, end, out, row);
  }
}

// Kernel::tile<Rows, Panels>(panels, x, first, k, end, out) adds inputs [k, end) of the panels to
// out[Panels][x.rows, 16], at row `first`.
template <typename Kernel>
struct WidePanel {
  template <int Rows, int Panels>
  static void tile(const std::uint8_t* const* panels, const ActivationRows& x, int first,
                   float* out) {
    Kernel::template tile<Rows, Panels>(panels, x, first, 0, x.cols, out);
  }
  static void run(const std::uint8_t* const* panels, int count, const ActivationRows& x,
                  float* out) {
    if (x.rows == 1) return run_row<WidePanel>(panels, count, x, out);
    const std::int64_t inputs = x.rows > kRowsAtOnce ? kWideInputs : x.cols;
    for (int p = 0; p < count; ++p, ++panels, out += x.rows * kPanelRows)
      for (std::int64_t k = 0; k < x.cols; k += inputs)
        run_wide_tiles<Kernel>(panels, x, k, k + inputs < x.cols ? k + inputs : x.cols, out);
  }
};

template <typename Plain>
struct PlainTiles {
  static constexpr int kPrefetchedInputs = 8;
  template <int Rows, int Panels>
  static void tile(const std::uint8_t* const* panels, const ActivationRows& x, int first,
                   std::int64_t k, std::int64_t end, float* out) {
    constexpr int kBytes = kPanelRows * Plain::kBytes;  // of an input
    const float* rows[Rows];
    Lanes acc[Panels][Rows];
    for (int m = 0; m < Rows; ++m) rows[m] = x.x + (first + m) * x.cols;
    unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
      load_sums(out + (p * x.rows + first) * kPanelRows, k, acc[p]);
    });
    for (; k < end; ++k)
      unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
        const std::uint8_t* panel = panels[p] + k * kBytes;
        if (first == 0)
          __builtin_prefetch(panel + kPrefetchedAhead<Panels, kPrefetchedInputs * kBytes>);
        const Lanes w = Plain::load(panel);
        unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
          acc[p][m] = fma(w, Lanes::set(rows[m][k]), acc[p][m]);
        });
      });
    unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
      store_sums(acc[p], out + (p * x.rows + first) * kPanelRows);
    });
  }
};

struct Bf16Tiles {
  static constexpr int kInputsBeside = 8;  // of a panel, then of the next
  // Of one panel a chain after the other: the sums of both would not fit the registers.
  template <int Rows, int Panels>
  static void tile(const std::uint8_t* const* panels, const ActivationRows& x, int first,
                   std::int64_t k, std::int64_t end, float* out) {
    const float* rows[Rows];
    Lanes acc[Panels][Rows];
    for (int m = 0; m < Rows; ++m) rows[m] = x.rounded + (first + m) * x.cols;
    unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
      load_sums(out + (p * x.rows + first) * kPanelRows, k, acc[p]);
    });
    for (; k < end; k += kBf16Step) {
      const int count = end - k < kBf16Step ? static_cast<int>(end - k) : kBf16Step;
      Lanes even[Panels][Rows], odd[Panels][Rows];
      unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
        unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
          even[p][m] = odd[p][m] = Lanes::zero();
        });
      });
      constexpr int kPart = Panels == 1 ? kBf16Step : kInputsBeside;
      for (int part = 0; part < count; part += kPart)
        unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
          const std::uint8_t* panel = panels[p] + (k + part) * kPanelRows * 2;
          const int some = count - part < kPart ? count - part : kPart;
          if (first == 0)
            for (int line = 0; line < kPart * kPanelRows * 2; line += 64)
              __builtin_prefetch(panel + kPrefetchedAhead<Panels, kPart * kPanelRows * 2> + line);
          add_bf16_chain<0, Rows>(panel, rows, k + part, some, even[p]);
          add_bf16_chain<1, Rows>(panel, rows, k + part, some, odd[p]);
        });
      unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
        unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
          acc[p][m] = acc[p][m] + (even[p][m] + odd[p][m]);
        });
      });
    }
    unrolled<Panels>([&](auto p) __attribute__((always_inline)) {
      store_sums(acc[p], out + (p * x.rows + first) * kPanelRows);
    });
  }
};

}  // namespace
}  // namespace quire::cpu
