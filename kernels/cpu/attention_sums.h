#pragma once

#include "kernels/cpu/row_kernels.h"

// Keys and values of one span as attention reads them, and the sums it forms. Include after a
// lanes_*.h; attention_kernels.h says in which order they are added.
namespace quire::cpu {
namespace {

template <int Bytes, bool Scaled = false, bool Pairs = false>
struct StoredAs {
  static constexpr int kBytes = Bytes;
  static constexpr bool kScaled = Scaled;
  static constexpr bool kPairs = Pairs;  // in the order of BF16
  static constexpr bool kWidened = false;
};
struct StoredBF16 : StoredAs<2, false, true> {
  static inline Lanes load(const std::uint8_t* p) {
    return Lanes::load_bf16(reinterpret_cast<const std::uint16_t*>(p));
  }
};
struct StoredF16 : StoredAs<2> {
  static inline Lanes load(const std::uint8_t* p) { return Lanes::load_half(p); }
};
struct StoredF32 : StoredAs<4> {
  static inline Lanes load(const std::uint8_t* p) {
    return Lanes::load(reinterpret_cast<const float*>(p));
  }
};
struct StoredInt8 : StoredAs<1, true> {
  static inline Lanes load(const std::uint8_t* p) {
    return Lanes::load_int8(reinterpret_cast<const std::int8_t*>(p));
  }
};
// Floats made from `Stored`, in its order, the values of a span in one piece.
template <bool Pairs>
struct WidenedFloats : StoredF32 {
  static constexpr bool kPairs = Pairs, kWidened = true;
};
template <typename Stored>
using Widened = WidenedFloats<Stored::kPairs>;

// Keys and values of a span to read: as stored, or floats made from them.
struct Tiles {
  const StoredTile* tile;
  int stride;  // elements from a position's value to the next one's
  int scales;  // of a value
};

// Dim d of a tile's 16 keys.
template <typename Stored>
inline Lanes key_of(const StoredTile& tile, int d) {
  const Lanes k = Stored::load(tile.keys + static_cast<std::int64_t>(d) * 16 * Stored::kBytes);
  if constexpr (Stored::kScaled)
    return k * Lanes::load(tile.key_scales + d / kKvScaleDims * 16);
  else
    return k;
}

// One position's value from some dim on, as stored.
template <typename Stored>
struct Value {
  const std::uint8_t* at;
  const float* scales;  // of the head's first dims on

  Value(const Tiles& tiles, int p, int dim) {
    const StoredTile& tile = tiles.tile[p >> 4];
    at = tile.values + (static_cast<std::int64_t>(p & 15) * tiles.stride + dim) * Stored::kBytes;
    if constexpr (Stored::kScaled) scales = tile.value_scales + (p & 15) * tiles.scales;
  }
  // To the next position of the tile.
  QUIRE_INLINE void advance(const Tiles& tiles) {
    at += static_cast<std::int64_t>(tiles.stride) * Stored::kBytes;
    if constexpr (Stored::kScaled) scales += tiles.scales;
  }
  // Chunk c of 16 dims from `dim`, where it starts, on.
  QUIRE_INLINE Lanes chunk(int dim, int c) const {
    const Lanes v = Stored::load(at + 16 * c * Stored::kBytes);
    if constexpr (Stored::kScaled)
      return v * Lanes::set(scales[(dim + 16 * c) / kKvScaleDims]);
    else
      return v;
  }
};

// Chains of a score or output, those worked on at once, and rows that have these in registers. Both
// at once, what is stored is read and widened once; one after the other, of floats, more rows have
// theirs in registers.
template <typename Stored>
inline constexpr int kChains = Stored::kPairs ? 2 : 1;
template <typename Stored>
inline constexpr int kAtOnce = Stored::kWidened ? 1 : kChains<Stored>;
template <typename Stored>
inline constexpr int kRowsOf = kRowsAtOnce / kAtOnce<Stored>;

// Tiles of keys, or 16 dims of values, that few rows work on at once, so that their chains fill the
// registers: a power of two.
constexpr int count_at_once(int chains) {
  int count = 1;
  while (count < 4 && count * 2 * chains <= kRowsAtOnce * 2 / 3) count *= 2;
  return count;
}

// Sums of Chains chains, for Count tiles or rows and Rows rows or chunks.
template <int Chains, int Count, int Rows>
struct Sums {
  Lanes of[Chains][Count][Rows];

  // f(chain, i, j), unrolled: a loop would keep the sums in memory.
  template <typename F>
  static QUIRE_INLINE void each(F&& f) {
    unrolled<Chains>([&](auto chain) __attribute__((always_inline)) {
      unrolled<Count>([&](auto i) __attribute__((always_inline)) {
        unrolled<Rows>([&](auto j) __attribute__((always_inline)) { f(chain, i, j); });
      });
    });
  }
  QUIRE_INLINE void clear() {
    each([&](auto chain, auto i, auto j)
             __attribute__((always_inline)) { of[chain][i][j] = Lanes::zero(); });
  }
  QUIRE_INLINE void take(const Sums& other) {
    each([&](auto chain, auto i, auto j)
             __attribute__((always_inline)) { of[chain][i][j] = other.of[chain][i][j]; });
  }
  // this += even + odd
  QUIRE_INLINE void add(const Sums<2, Count, Rows>& pair) {
    each([&](auto chain, auto i, auto j) __attribute__((always_inline)) {
      of[chain][i][j] = of[chain][i][j] + (pair.of[0][i][j] + pair.of[1][i][j]);
    });
  }
};

// Calls f(passes so far, unrolled) until all chains have been worked on.
template <typename Stored, typename F>
QUIRE_INLINE void each_pass(F&& f) {
  unrolled<kChains<Stored> / kAtOnce<Stored>>(f);
}

}  // namespace
}  // namespace quire::cpu
