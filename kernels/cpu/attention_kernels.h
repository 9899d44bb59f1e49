#pragma once

// Attention of some query rows over one span of keys, written once over Lanes. Include after
// row_kernels.h.
//
// Order: a score is an FMA chain over the head's dims, ascending; the sum of weights adds tiles of
// 16 positions lane by lane and the lanes at the end; an output is an FMA chain over the visible
// positions, ascending. A row's results depend on its own query and on the keys it sees alone.
namespace quire::cpu {
namespace {

template <int Rows>
inline void score_tile(const SpanArgs& a, int row, int tile) {
  const float* keys = a.keys + static_cast<std::int64_t>(tile) * a.head_dim * 16;
  const float* q[Rows];
  Lanes acc[Rows];
  for (int m = 0; m < Rows; ++m) {
    q[m] = a.q + static_cast<std::int64_t>(row + m) * a.padded_dim;
    acc[m] = Lanes::zero();
  }
  for (int d = 0; d < a.head_dim; ++d) {
    const Lanes k = Lanes::load(keys + d * 16);
    for (int m = 0; m < Rows; ++m) acc[m] = fma(k, Lanes::set(q[m][d]), acc[m]);
  }
  const Lanes hidden = Lanes::set(-__builtin_inff());
  for (int m = 0; m < Rows; ++m) {
    const int query = (row + m) / a.group;
    select_range(acc[m], hidden, a.begin[query] - tile * 16, a.end[query] - tile * 16)
        .store(a.scores + static_cast<std::int64_t>(row + m) * kSpan + tile * 16);
  }
}

// The last rows, `rest` of them and at most Rows.
template <int Rows>
inline void score_rest(const SpanArgs& a, int row, int rest, int tile) {
  if constexpr (Rows > 0) {
    if (rest < Rows) return score_rest<Rows - 1>(a, row, rest, tile);
    score_tile<Rows>(a, row, tile);
  }
}

inline void score_rows(const SpanArgs& a, int tile_begin, int tile_end) {
  const int rows = a.queries * a.group, whole = rows / kRowsAtOnce * kRowsAtOnce;
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    for (int row = 0; row < whole; row += kRowsAtOnce) score_tile<kRowsAtOnce>(a, row, tile);
    score_rest<kRowsAtOnce - 1>(a, whole, rows - whole, tile);
  }
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
template <int Chunks>
inline void weigh_positions(const SpanArgs& a, int row, int dim, int begin, int end,
                            Lanes (&acc)[Chunks]) {
  const float* weights = a.scores + static_cast<std::int64_t>(row) * kSpan;
  for (int p = begin; p < end; ++p) {
    const float* values = a.values + static_cast<std::int64_t>(p) * a.padded_dim + dim;
    const Lanes w = Lanes::set(weights[p]);
    for (int c = 0; c < Chunks; ++c) acc[c] = fma(Lanes::load(values + 16 * c), w, acc[c]);
  }
}

// Dims [dim, dim + 16 * Chunks) of Rows rows: together over the positions all of them see, each
// alone before and behind those.
template <int Rows, int Chunks>
inline void weigh_rows(const SpanArgs& a, int row, int dim) {
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
    weigh_positions(a, row + m, dim, a.begin[query], a.end[query] < begin ? a.end[query] : begin,
                    acc[m]);
  }
  for (int p = begin; p < end; ++p) {
    const float* values = a.values + static_cast<std::int64_t>(p) * a.padded_dim + dim;
    Lanes v[Chunks];
    for (int c = 0; c < Chunks; ++c) v[c] = Lanes::load(values + 16 * c);
    for (int m = 0; m < Rows; ++m) {
      const Lanes w = Lanes::set(weights[m][p]);
      for (int c = 0; c < Chunks; ++c) acc[m][c] = fma(v[c], w, acc[m][c]);
    }
  }
  for (int m = 0; m < Rows; ++m) {
    const int query = (row + m) / a.group;
    weigh_positions(a, row + m, dim, begin > end ? begin : end, a.end[query], acc[m]);
    for (int c = 0; c < Chunks; ++c)
      acc[m][c].store(a.out + static_cast<std::int64_t>(row + m) * a.padded_dim + dim + 16 * c);
  }
}

// The last rows, `rest` of them and at most Rows.
template <int Rows>
inline void weigh_rest(const SpanArgs& a, int row, int rest) {
  if constexpr (Rows > 0) {
    if (rest < Rows) return weigh_rest<Rows - 1>(a, row, rest);
    constexpr int kChunks = Rows == 1 ? 4 : Rows == 2 ? 2 : 1;
    int dim = 0;
    for (; dim + 16 * kChunks <= a.padded_dim; dim += 16 * kChunks)
      weigh_rows<Rows, kChunks>(a, row, dim);
    for (; dim < a.padded_dim; dim += 16) weigh_rows<Rows, 1>(a, row, dim);
  }
}

// A slice of 16 dims of all values at a time: it stays in the first-level cache for all rows.
inline void weigh_all(const SpanArgs& a) {
  const int rows = a.queries * a.group, whole = rows / kRowsAtOnce * kRowsAtOnce;
  for (int dim = 0; whole > 0 && dim < a.padded_dim; dim += 16)
    for (int row = 0; row < whole; row += kRowsAtOnce) weigh_rows<kRowsAtOnce, 1>(a, row, dim);
  weigh_rest<kRowsAtOnce - 1>(a, whole, rows - whole);
}

inline void attend_span_rows(const SpanArgs& a) {
  int begin = a.begin[0], end = a.end[0];
  for (int query = 1; query < a.queries; ++query) {
    begin = a.begin[query] < begin ? a.begin[query] : begin;
    end = a.end[query] > end ? a.end[query] : end;
  }
  score_rows(a, begin / 16, (end + 15) / 16);
  for (int row = 0; row < a.queries * a.group; ++row) soften_row(a, row);
  weigh_all(a);
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

}  // namespace
}  // namespace quire::cpu
