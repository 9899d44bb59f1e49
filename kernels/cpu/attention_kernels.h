#pragma once

#include "kernels/cpu/row_kernels.h"

// Attention of some query rows over one span of keys, written once over Lanes. Include after a
// lanes_*.h.
//
// Order: a score is an FMA chain over the head's dims, ascending; the sum of weights adds tiles of
// 16 positions lane by lane and the lanes at the end; an output is an FMA chain over the visible
// positions, ascending. A stored key or value is widened to a float, and multiplied by its scale
// when it has one, before it enters a chain. A row's results depend on its own query and on the
// keys it sees alone.
//
// Up to kRowsAtOnce rows read keys and values as they are stored: less work than memory takes to
// deliver them, so scoring fetches the span's values ahead, and weighing the next span's keys,
// evenly all along. More rows share keys and values as floats.
namespace quire::cpu {
namespace {

struct StoredBF16 {
  static constexpr int kBytes = 2;
  static constexpr bool kScaled = false;
  static inline Lanes load(const std::uint8_t* p) {
    return Lanes::load_bf16(reinterpret_cast<const std::uint16_t*>(p));
  }
};
struct StoredF16 {
  static constexpr int kBytes = 2;
  static constexpr bool kScaled = false;
  static inline Lanes load(const std::uint8_t* p) { return Lanes::load_half(p); }
};
struct StoredF32 {
  static constexpr int kBytes = 4;
  static constexpr bool kScaled = false;
  static inline Lanes load(const std::uint8_t* p) {
    return Lanes::load(reinterpret_cast<const float*>(p));
  }
};
struct StoredInt8 {
  static constexpr int kBytes = 1;
  static constexpr bool kScaled = true;
  static inline Lanes load(const std::uint8_t* p) {
    return Lanes::load_int8(reinterpret_cast<const std::int8_t*>(p));
  }
};

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

// Dims [dim, dim + 16) of position p's value.
template <typename Stored>
inline Lanes value_of(const Tiles& tiles, int p, int dim) {
  const StoredTile& tile = tiles.tile[p >> 4];
  const Lanes v = Stored::load(
      tile.values + (static_cast<std::int64_t>(p & 15) * tiles.stride + dim) * Stored::kBytes);
  if constexpr (Stored::kScaled)
    return v * Lanes::set(tile.value_scales[(p & 15) * tiles.scales + dim / kKvScaleDims]);
  else
    return v;
}

// Tiles of keys, or 16 dims of values, that few rows work on at once, so that their chains fill the
// registers: a power of two.
constexpr int chains_at_once(int rows) {
  int count = 1;
  while (count < 4 && count * 2 * rows <= kRowsAtOnce * 2 / 3) count *= 2;
  return count;
}

template <typename Stored, int Rows, int Count, bool Ahead>
inline void score_tiles(const SpanArgs& a, const StoredTile* tiles, int row, int tile) {
  const float* q[Rows];
  Lanes acc[Count][Rows];
  for (int m = 0; m < Rows; ++m) q[m] = a.q + static_cast<std::int64_t>(row + m) * a.padded_dim;
  for (int t = 0; t < Count; ++t)
    for (int m = 0; m < Rows; ++m) acc[t][m] = Lanes::zero();
  for (int d = 0; d < a.head_dim; ++d)
    for (int t = 0; t < Count; ++t) {
      if constexpr (Ahead) __builtin_prefetch(tiles[t].values + d * 16 * Stored::kBytes);
      const Lanes k = key_of<Stored>(tiles[t], d);
      for (int m = 0; m < Rows; ++m) acc[t][m] = fma(k, Lanes::set(q[m][d]), acc[t][m]);
    }
  const Lanes hidden = Lanes::set(-__builtin_inff());
  for (int t = 0; t < Count; ++t)
    for (int m = 0; m < Rows; ++m) {
      const int query = (row + m) / a.group, first = (tile + t) * 16;
      select_range(acc[t][m], hidden, a.begin[query] - first, a.end[query] - first)
          .store(a.scores + static_cast<std::int64_t>(row + m) * kSpan + first);
    }
}

// `rest` rows, at most Rows, over tiles [tile, end); tiles[0] is the first.
template <typename Stored, int Rows, bool Ahead>
inline void score_rest(const SpanArgs& a, const StoredTile* tiles, int row, int rest, int tile,
                       int end) {
  if constexpr (Rows > 0) {
    if (rest < Rows) return score_rest<Stored, Rows - 1, Ahead>(a, tiles, row, rest, tile, end);
    constexpr int kCount = chains_at_once(Rows);
    for (; tile + kCount <= end; tile += kCount, tiles += kCount)
      score_tiles<Stored, Rows, kCount, Ahead>(a, tiles, row, tile);
    for (; tile < end; ++tile, ++tiles) score_tiles<Stored, Rows, 1, Ahead>(a, tiles, row, tile);
  }
}

// All rows over one tile of floats.
inline void score_rows(const SpanArgs& a, const StoredTile& floats, int tile) {
  const int rows = a.queries * a.group, whole = rows / kRowsAtOnce * kRowsAtOnce;
  for (int row = 0; row < whole; row += kRowsAtOnce)
    score_tiles<StoredF32, kRowsAtOnce, 1, false>(a, &floats, row, tile);
  score_rest<StoredF32, kRowsAtOnce - 1, false>(a, &floats, whole, rows - whole, tile, tile + 1);
}

// Turns a row's scores of its own tiles into weights.
inline void soften_row(const SpanArgs& a, int row) {
  const int query = row / a.group;
  const int first = a.begin[query] / 16 * 16, last = a.end[query];
  float* scores = a.scores + static_cast<std::int64_t>(row) * kSpan;
  Lanes largest = Lanes::set(-__builtin_inff());
  for (int p = first; p < last; p += 16) largest = max(largest, Lanes::load(scores + p));
  a.largest[row] = largest.largest();
  const Lanes shift = Lanes::set(a.largest[row]);
  Lanes total = Lanes::zero();
  for (int p = first; p < last; p += 16) {
    const Lanes weight = exp_lanes(Lanes::load(scores + p) - shift);
    weight.store(scores + p);
    total = total + weight;
  }
  a.total[row] = total.sum();
}

// Positions [begin, end) of one row, behind what `acc` has already.
template <typename Stored, int Chunks>
inline void weigh_positions(const SpanArgs& a, const Tiles& tiles, int row, int dim, int begin,
                            int end, Lanes (&acc)[Chunks]) {
  const float* weights = a.scores + static_cast<std::int64_t>(row) * kSpan;
  for (int p = begin; p < end; ++p) {
    const Lanes w = Lanes::set(weights[p]);
    for (int c = 0; c < Chunks; ++c)
      acc[c] = fma(value_of<Stored>(tiles, p, dim + 16 * c), w, acc[c]);
  }
}

// Dims [dim, dim + 16 * Chunks) of Rows rows: together over the positions all of them see, each
// alone before and behind those.
template <typename Stored, int Rows, int Chunks, bool Ahead>
inline void weigh_rows(const SpanArgs& a, const Tiles& tiles, int row, int dim) {
  const float* weights[Rows];
  Lanes acc[Rows][Chunks];
  int begin = 0, end = kSpan;
  for (int m = 0; m < Rows; ++m) {
    const int query = (row + m) / a.group;
    weights[m] = a.scores + static_cast<std::int64_t>(row + m) * kSpan;
    begin = a.begin[query] > begin ? a.begin[query] : begin;
    end = a.end[query] < end ? a.end[query] : end;
  }
  for (int m = 0; m < Rows; ++m) {
    const int query = (row + m) / a.group;
    for (int c = 0; c < Chunks; ++c) acc[m][c] = Lanes::zero();
    weigh_positions<Stored>(a, tiles, row + m, dim, a.begin[query],
                            a.end[query] < begin ? a.end[query] : begin, acc[m]);
  }
  for (int p = begin; p < end; ++p) {
    if constexpr (Ahead)
      __builtin_prefetch(a.next_keys[p >> 4] +
                         (static_cast<std::int64_t>(p & 15) * tiles.stride + dim) * Stored::kBytes);
    Lanes v[Chunks];
    for (int c = 0; c < Chunks; ++c) v[c] = value_of<Stored>(tiles, p, dim + 16 * c);
    for (int m = 0; m < Rows; ++m) {
      const Lanes w = Lanes::set(weights[m][p]);
      for (int c = 0; c < Chunks; ++c) acc[m][c] = fma(v[c], w, acc[m][c]);
    }
  }
  for (int m = 0; m < Rows; ++m) {
    const int query = (row + m) / a.group;
    weigh_positions<Stored>(a, tiles, row + m, dim, begin > end ? begin : end, a.end[query],
                            acc[m]);
    for (int c = 0; c < Chunks; ++c)
      acc[m][c].store(a.out + static_cast<std::int64_t>(row + m) * a.padded_dim + dim + 16 * c);
  }
}

// `rest` rows, at most Rows.
template <typename Stored, int Rows, bool Ahead>
inline void weigh_rest(const SpanArgs& a, const Tiles& tiles, int row, int rest) {
  if constexpr (Rows > 0) {
    if (rest < Rows) return weigh_rest<Stored, Rows - 1, Ahead>(a, tiles, row, rest);
    constexpr int kChunks = chains_at_once(Rows);
    int dim = 0;
    for (; dim + 16 * kChunks <= a.padded_dim; dim += 16 * kChunks)
      weigh_rows<Stored, Rows, kChunks, Ahead>(a, tiles, row, dim);
    for (; dim < a.padded_dim; dim += 16) weigh_rows<Stored, Rows, 1, Ahead>(a, tiles, row, dim);
  }
}

// A slice of 16 dims of all values at a time: it stays in the first-level cache for all rows.
inline void weigh_all(const SpanArgs& a, const Tiles& floats) {
  const int rows = a.queries * a.group, whole = rows / kRowsAtOnce * kRowsAtOnce;
  for (int dim = 0; whole > 0 && dim < a.padded_dim; dim += 16)
    for (int row = 0; row < whole; row += kRowsAtOnce)
      weigh_rows<StoredF32, kRowsAtOnce, 1, false>(a, floats, row, dim);
  weigh_rest<StoredF32, kRowsAtOnce - 1, false>(a, floats, whole, rows - whole);
}

template <typename Stored>
inline void widen_keys(const SpanArgs& a, const StoredTile& tile) {
  for (int d = 0; d < a.head_dim; ++d) key_of<Stored>(tile, d).store(a.key_floats + d * 16);
}

// Positions [begin, end), dims behind the head's last as zero.
template <typename Stored>
inline void widen_values(const SpanArgs& a, const Tiles& stored, int begin, int end) {
  const int whole = a.head_dim / 16 * 16, rest = a.head_dim - whole;
  for (int p = begin; p < end; ++p) {
    float* target = a.value_floats + static_cast<std::int64_t>(p) * a.padded_dim;
    for (int dim = 0; dim < whole; dim += 16) value_of<Stored>(stored, p, dim).store(target + dim);
    if (rest == 0) continue;
    const StoredTile& tile = stored.tile[p / 16];
    const std::uint8_t* last = tile.values + (p % 16 * a.head_dim + whole) * Stored::kBytes;
    std::uint8_t bytes[64] = {};
    __builtin_memcpy(bytes, last, static_cast<std::size_t>(rest) * Stored::kBytes);
    Lanes v = Stored::load(bytes);
    if constexpr (Stored::kScaled)
      v = v * Lanes::set(tile.value_scales[p % 16 * stored.scales + whole / kKvScaleDims]);
    v.store(target + whole);
  }
}

template <typename Stored>
inline void attend_span_rows(const SpanArgs& a) {
  int begin = a.begin[0], end = a.end[0];
  for (int query = 1; query < a.queries; ++query) {
    begin = a.begin[query] < begin ? a.begin[query] : begin;
    end = a.end[query] > end ? a.end[query] : end;
  }
  const int rows = a.queries * a.group, first = begin / 16, last = (end + 15) / 16;
  const Tiles stored{a.tiles, a.head_dim, (a.head_dim + kKvScaleDims - 1) / kKvScaleDims};
  if (rows <= kRowsAtOnce && a.head_dim % 16 == 0) {
    score_rest<Stored, kRowsAtOnce, true>(a, a.tiles + first, 0, rows, first, last);
    for (int row = 0; row < rows; ++row) soften_row(a, row);
    weigh_rest<Stored, kRowsAtOnce, true>(a, stored, 0, rows);
    return;
  }
  StoredTile floats[kSpan / 16];
  for (int tile = first; tile < last; ++tile) {
    widen_keys<Stored>(a, a.tiles[tile]);
    floats[tile].keys = reinterpret_cast<const std::uint8_t*>(a.key_floats);
    floats[tile].values = reinterpret_cast<const std::uint8_t*>(
        a.value_floats + std::int64_t{tile} * 16 * a.padded_dim);
    score_rows(a, floats[tile], tile);
  }
  for (int row = 0; row < rows; ++row) soften_row(a, row);
  widen_values<Stored>(a, stored, begin, end);
  weigh_all(a, {floats, a.padded_dim, 0});
}

inline void merge_span_row(float& largest, float& total, float* out, float span_largest,
                           float span_total, const float* span_out, std::int64_t count) {
  const float top = largest > span_largest ? largest : span_largest;
  float factors[16] = {largest - top, span_largest - top};
  exp_lanes(Lanes::load(factors)).store(factors);
  const Lanes keep = Lanes::set(factors[0]), add = Lanes::set(factors[1]);
  total = total * factors[0] + span_total * factors[1];
  largest = top;
  for (std::int64_t i = 0; i < count; i += 16)
    fma(Lanes::load(span_out + i), add, Lanes::load(out + i) * keep).store(out + i);
}

constexpr AttentionKernels attention_of_lanes() {
  AttentionKernels kernels{};
  kernels.attend_span[static_cast<int>(KvDType::kBF16)] = attend_span_rows<StoredBF16>;
  kernels.attend_span[static_cast<int>(KvDType::kF16)] = attend_span_rows<StoredF16>;
  kernels.attend_span[static_cast<int>(KvDType::kF32)] = attend_span_rows<StoredF32>;
  kernels.attend_span[static_cast<int>(KvDType::kInt8)] = attend_span_rows<StoredInt8>;
  kernels.merge_span = merge_span_row;
  return kernels;
}

}  // namespace
}  // namespace quire::cpu
