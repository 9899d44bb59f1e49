#pragma once

#include "kernels/cpu/attention_sums.h"

// Values of one span, weighed by the weights of query rows. Include after a lanes_*.h.
namespace quire::cpu {
namespace {

// The positions that Rows rows see, [begin, end) each and [all_begin, all_end) all of them.
template <int Rows>
struct Seen {
  const float* weights;  // [Rows, kSpan]
  int begin[Rows], end[Rows];
  int any_begin = kSpan, any_end = 0, all_begin = 0, all_end = kSpan;

  Seen(const SpanArgs& a, int row) : weights(a.scores + static_cast<std::int64_t>(row) * kSpan) {
    for (int m = 0; m < Rows; ++m) {
      const int query = (row + m) / a.group;
      begin[m] = a.begin[query];
      end[m] = a.end[query];
      any_begin = begin[m] < any_begin ? begin[m] : any_begin;
      any_end = end[m] > any_end ? end[m] : any_end;
      all_begin = begin[m] > all_begin ? begin[m] : all_begin;
      all_end = end[m] < all_end ? end[m] : all_end;
    }
  }
};

// Positions [p, end) of row m alone.
template <typename Stored, int Rows, int Chunks>
inline void weigh_alone(const Tiles& tiles, const Seen<Rows>& seen, int m, int dim, int p, int end,
                        Sums<kChains<Stored>, Rows, Chunks>& sum) {
  for (; p < end; ++p) {
    const Value<Stored> value(tiles, p, dim);
    const Lanes w = Lanes::set(seen.weights[m * kSpan + p]);
    for (int c = 0; c < Chunks; ++c) {
      Lanes& chain = sum.of[p % kChains<Stored>][m][c];
      chain = fma(value.chunk(dim, c), w, chain);
    }
  }
}

// Adds the position at `value` to a chain and goes on to the next; weights: its, of the first row.
template <typename Stored, int Chain, int Rows, int Chunks>
QUIRE_INLINE void weigh_position(Value<Stored>& value, const Tiles& tiles, const float* weights,
                                 int dim, Sums<kChains<Stored>, Rows, Chunks>& sum) {
  Lanes v[Chunks];
  unrolled<Chunks>([&](auto c) __attribute__((always_inline)) { v[c] = value.chunk(dim, c); });
  value.advance(tiles);
  unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
    const Lanes w = Lanes::set(weights[m * kSpan]);
    unrolled<Chunks>([&](auto c) __attribute__((always_inline)) {
      sum.of[Chain][m][c] = fma(v[c], w, sum.of[Chain][m][c]);
    });
  });
}

// `count` positions in one piece from p on, which all rows see; both a multiple of the chains.
template <typename Stored, bool Ahead, int Pass, int Rows, int Chunks>
QUIRE_INLINE void weigh_piece(const SpanArgs& a, const Tiles& tiles, const Seen<Rows>& seen,
                              int dim, int p, int count, Sums<kChains<Stored>, Rows, Chunks>& sum) {
  constexpr int kFirst = Pass * kAtOnce<Stored>;
  Value<Stored> value(tiles, p + kFirst, dim);
  const std::uint8_t* ahead = a.next_keys[p >> 4] + (value.at - tiles.tile[p >> 4].values);
  const float* weights = seen.weights + p + kFirst;
  for (int i = 0; i < count; i += kChains<Stored>, weights += kChains<Stored>) {
    unrolled<kAtOnce<Stored>>([&](auto chain) __attribute__((always_inline)) {
      if constexpr (Ahead) {
        __builtin_prefetch(ahead);
        ahead += static_cast<std::int64_t>(tiles.stride) * Stored::kBytes;
      }
      weigh_position<Stored, kFirst + chain>(value, tiles, weights + chain, dim, sum);
    });
    if constexpr (kAtOnce<Stored> < kChains<Stored>) value.advance(tiles);
  }
}

// Where the piece of values that holds position p ends, if that is before `end`.
template <typename Stored>
constexpr int piece_end(int p, int end) {
  return Stored::kWidened || (p | 15) >= end ? end : (p | 15) + 1;
}

// Positions [p, end); as weigh_piece().
template <typename Stored, bool Ahead, int Rows, int Chunks>
QUIRE_INLINE void weigh_together(const SpanArgs& a, const Tiles& tiles, const Seen<Rows>& seen,
                                 int dim, int p, int end,
                                 Sums<kChains<Stored>, Rows, Chunks>& sum) {
  while (p < end) {
    const int stop = piece_end<Stored>(p, end);
    each_pass<Stored>([&](auto pass) __attribute__((always_inline)) {
      weigh_piece<Stored, Ahead, pass>(a, tiles, seen, dim, p, stop - p, sum);
    });
    p = stop;
  }
}

// Positions [first, last), where the rows see not the same: together over what all of them see,
// each alone before and behind that.
template <typename Stored, bool Ahead, int Rows, int Chunks>
__attribute__((noinline)) void weigh_apart(const SpanArgs& a, const Tiles& tiles,
                                           const Seen<Rows>& seen, int dim, int first, int last,
                                           Sums<kChains<Stored>, Rows, Chunks>& sum) {
  constexpr int kMask = kChains<Stored> - 1;
  const auto from = [first](int p) { return p > first ? p : first; };
  const auto below = [last](int p) { return p < last ? p : last; };
  const int begin = (from(seen.all_begin) + kMask) & ~kMask, end = below(seen.all_end) & ~kMask;
  for (int m = 0; m < Rows; ++m)
    weigh_alone<Stored>(tiles, seen, m, dim, from(seen.begin[m]),
                        below(seen.end[m] < begin ? seen.end[m] : begin), sum);
  Sums<kChains<Stored>, Rows, Chunks> together;
  together.take(sum);
  weigh_together<Stored, Ahead>(a, tiles, seen, dim, begin, end, together);
  sum.take(together);
  for (int m = 0; m < Rows; ++m)
    weigh_alone<Stored>(tiles, seen, m, dim, begin > end ? begin : end, below(seen.end[m]), sum);
}

// Positions [first, last), from zero.
template <typename Stored, bool Ahead, int Rows, int Chunks>
QUIRE_INLINE void weigh_step(const SpanArgs& a, const Tiles& tiles, const Seen<Rows>& seen, int dim,
                             int first, int last, Sums<kChains<Stored>, Rows, Chunks>& sum) {
  sum.clear();
  if (seen.all_begin <= first && seen.all_end >= last)
    return weigh_together<Stored, Ahead>(a, tiles, seen, dim, first, last, sum);
  // An object of its own: `sum` stays in registers because nothing points to it.
  Sums<kChains<Stored>, Rows, Chunks> apart;
  apart.clear();
  weigh_apart<Stored, Ahead>(a, tiles, seen, dim, first, last, apart);
  sum.take(apart);
}

// Dims [dim, dim + 16 * Chunks) of Rows rows.
template <typename Stored, int Rows, int Chunks, bool Ahead>
inline void weigh_rows(const SpanArgs& a, const Tiles& tiles, int row, int dim) {
  const Seen<Rows> seen(a, row);
  Sums<1, Rows, Chunks> total;
  if constexpr (!Stored::kPairs) {
    weigh_step<Stored, Ahead>(a, tiles, seen, dim, 0, kSpan, total);
  } else {
    total.clear();
    for (int p = seen.any_begin / kPairStep * kPairStep; p < seen.any_end; p += kPairStep) {
      Sums<2, Rows, Chunks> pair;
      weigh_step<Stored, Ahead>(a, tiles, seen, dim, p, p + kPairStep, pair);
      total.add(pair);
    }
  }
  total.each([&](auto, auto m, auto c) __attribute__((always_inline)) {
    total.of[0][m][c].store(a.out + static_cast<std::int64_t>(row + m) * a.padded_dim + dim +
                            16 * c);
  });
}

// Dims [dim, end) of `rest` rows, at most Rows.
template <typename Stored, int Rows, bool Ahead>
inline void weigh_rest(const SpanArgs& a, const Tiles& tiles, int row, int rest, int dim, int end) {
  if constexpr (Rows > 0) {
    if (rest < Rows) return weigh_rest<Stored, Rows - 1, Ahead>(a, tiles, row, rest, dim, end);
    constexpr int kChunks = count_at_once(Rows * kAtOnce<Stored>);
    for (; dim + 16 * kChunks <= end; dim += 16 * kChunks)
      weigh_rows<Stored, Rows, kChunks, Ahead>(a, tiles, row, dim);
    for (; dim < end; dim += 16) weigh_rows<Stored, Rows, 1, Ahead>(a, tiles, row, dim);
  }
}

// Dims [dim, end) of all rows.
template <typename Stored, bool Ahead>
inline void weigh_all(const SpanArgs& a, const Tiles& tiles, int dim, int end) {
  int row = 0, rest = a.queries * a.group;
  for (; rest > kRowsOf<Stored>; row += kRowsOf<Stored>, rest -= kRowsOf<Stored>)
    weigh_rest<Stored, kRowsOf<Stored>, Ahead>(a, tiles, row, kRowsOf<Stored>, dim, end);
  weigh_rest<Stored, kRowsOf<Stored>, Ahead>(a, tiles, row, rest, dim, end);
}

}  // namespace
}  // namespace quire::cpu
