#pragma once

#include "kernels/cpu/attention_sums.h"

// Scores of query rows over tiles of 16 keys, and the weights they become. Include after a
// lanes_*.h.
namespace quire::cpu {
namespace {

// Adds dim d of the keys to a chain.
template <typename Stored, bool Ahead, int Chain, int Rows, int Count>
QUIRE_INLINE void score_dim(const StoredTile* tiles, const float* const (&q)[Rows], int d,
                            Sums<kChains<Stored>, Count, Rows>& sum) {
  unrolled<Count>([&](auto t) __attribute__((always_inline)) {
    if constexpr (Ahead) __builtin_prefetch(tiles[t].values + d * 16 * Stored::kBytes);
    const Lanes k = key_of<Stored>(tiles[t], d);
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
      sum.of[Chain][t][m] = fma(k, Lanes::set(q[m][d]), sum.of[Chain][t][m]);
    });
  });
}

// Dims [begin, end); chain 0 takes `begin`.
template <typename Stored, bool Ahead, int Rows, int Count>
QUIRE_INLINE void score_dims(const StoredTile* tiles, const float* const (&q)[Rows], int begin,
                             int end, Sums<kChains<Stored>, Count, Rows>& sum) {
  each_pass<Stored>([&](auto pass) __attribute__((always_inline)) {
    int d = begin;
    for (; d + kChains<Stored> <= end; d += kChains<Stored>)
      unrolled<kAtOnce<Stored>>([&](auto i) __attribute__((always_inline)) {
        constexpr int kChain = pass * kAtOnce<Stored> + i;
        score_dim<Stored, Ahead, kChain>(tiles, q, d + kChain, sum);
      });
    if (pass == 0 && d < end) score_dim<Stored, Ahead, 0>(tiles, q, d, sum);
  });
}

// Of positions that a row does not see, too.
template <typename Stored, int Rows, int Count, bool Ahead>
inline void score_tiles(const SpanArgs& a, const StoredTile* tiles, int row, int tile) {
  const float* q[Rows];
  for (int m = 0; m < Rows; ++m) q[m] = a.q + static_cast<std::int64_t>(row + m) * a.padded_dim;
  Sums<1, Count, Rows> total;
  total.clear();
  if constexpr (!Stored::kPairs) {
    score_dims<Stored, Ahead>(tiles, q, 0, a.head_dim, total);
  } else {
    for (int d = 0; d < a.head_dim; d += kPairStep) {
      Sums<2, Count, Rows> pair;
      pair.clear();
      score_dims<Stored, Ahead>(tiles, q, d,
                                d + kPairStep < a.head_dim ? d + kPairStep : a.head_dim, pair);
      total.add(pair);
    }
  }
  total.each([&](auto, auto t, auto m) __attribute__((always_inline)) {
    total.of[0][t][m].store(a.scores + static_cast<std::int64_t>(row + m) * kSpan +
                            (tile + t) * 16);
  });
}

// `rest` rows, at most Rows, over tiles [tile, end); tiles[0] is the first.
template <typename Stored, int Rows, bool Ahead>
inline void score_rest(const SpanArgs& a, const StoredTile* tiles, int row, int rest, int tile,
                       int end) {
  if constexpr (Rows > 0) {
    if (rest < Rows) return score_rest<Stored, Rows - 1, Ahead>(a, tiles, row, rest, tile, end);
    constexpr int kCount = count_at_once(Rows * kAtOnce<Stored>);
    for (; tile + kCount <= end; tile += kCount, tiles += kCount)
      score_tiles<Stored, Rows, kCount, Ahead>(a, tiles, row, tile);
    for (; tile < end; ++tile, ++tiles) score_tiles<Stored, Rows, 1, Ahead>(a, tiles, row, tile);
  }
}

// All rows over tiles [tile, end).
template <typename Stored, bool Ahead>
inline void score_all(const SpanArgs& a, const StoredTile* tiles, int tile, int end) {
  int row = 0, rest = a.queries * a.group;
  for (; rest > kRowsOf<Stored>; row += kRowsOf<Stored>, rest -= kRowsOf<Stored>)
    score_rest<Stored, kRowsOf<Stored>, Ahead>(a, tiles, row, kRowsOf<Stored>, tile, end);
  score_rest<Stored, kRowsOf<Stored>, Ahead>(a, tiles, row, rest, tile, end);
}

struct PlainWeight {
  static inline Lanes of(const Lanes& weight) { return weight; }
  static inline void store(const Lanes& weight, float* scores, int p) { weight.store(scores + p); }
};
struct RoundedWeight : PlainWeight {
  static inline Lanes of(const Lanes& weight) { return rounded_to_bf16(weight); }
};

// Turns a row's scores of its own tiles into weights, those of positions it does not see into zero.
template <typename Weight>
inline void soften_row(const SpanArgs& a, int row) {
  const int query = row / a.group, begin = a.begin[query], end = a.end[query];
  float* scores = a.scores + static_cast<std::int64_t>(row) * kSpan;
  const Lanes hidden = Lanes::set(-__builtin_inff());
  Lanes largest = hidden;
  for (int p = begin / 16 * 16; p < end; p += 16) {
    Lanes score = Lanes::load(scores + p);
    if (p < begin || p + 16 > end) {
      score = select_range(score, hidden, begin - p, end - p);
      score.store(scores + p);
    }
    largest = max(largest, score);
  }
  a.largest[row] = largest.largest();
  const Lanes shift = Lanes::set(a.largest[row]);
  Lanes total = Lanes::zero();
  for (int p = begin / 16 * 16; p < end; p += 16) {
    const Lanes weight = Weight::of(exp_lanes(Lanes::load(scores + p) - shift));
    Weight::store(weight, scores, p);
    total = total + weight;
  }
  a.total[row] = total.sum();
}

template <typename Stored>
inline void soften_rows(const SpanArgs& a) {
  for (int row = 0; row < a.queries * a.group; ++row) {
    if constexpr (Stored::kPairs)
      soften_row<RoundedWeight>(a, row);
    else
      soften_row<PlainWeight>(a, row);
  }
}

// The positions that some row sees.
inline void seen_by_any(const SpanArgs& a, int& begin, int& end) {
  begin = a.begin[0];
  end = a.end[0];
  for (int query = 1; query < a.queries; ++query) {
    begin = a.begin[query] < begin ? a.begin[query] : begin;
    end = a.end[query] > end ? a.end[query] : end;
  }
}

}  // namespace
}  // namespace quire::cpu
