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

inline void score_rows(const SpanArgs& a, int tile_begin, int tile_end) {
  const int rows = a.queries * a.group;
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    int row = 0;
    for (; row + 4 <= rows; row += 4) score_tile<4>(a, row, tile);
    if (rows - row == 3) score_tile<3>(a, row, tile);
    if (rows - row == 2) score_tile<2>(a, row, tile);
    if (rows - row == 1) score_tile<1>(a, row, tile);
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

// Dims [dim, dim + 16 * Chunks) of Rows heads of one query.
template <int Rows, int Chunks>
inline void weigh_values(const SpanArgs& a, int query, int row, int dim) {
  const float* weights[Rows];
  Lanes acc[Rows][Chunks];
  for (int m = 0; m < Rows; ++m) {
    weights[m] = a.scores + static_cast<std::int64_t>(row + m) * kSpan;
    for (int c = 0; c < Chunks; ++c) acc[m][c] = Lanes::zero();
  }
  for (int p = a.begin[query]; p < a.end[query]; ++p) {
    const float* values = a.values + static_cast<std::int64_t>(p) * a.padded_dim + dim;
    Lanes v[Chunks];
    for (int c = 0; c < Chunks; ++c) v[c] = Lanes::load(values + 16 * c);
    for (int m = 0; m < Rows; ++m) {
      const Lanes w = Lanes::set(weights[m][p]);
      for (int c = 0; c < Chunks; ++c) acc[m][c] = fma(v[c], w, acc[m][c]);
    }
  }
  for (int m = 0; m < Rows; ++m)
    for (int c = 0; c < Chunks; ++c)
      acc[m][c].store(a.out + static_cast<std::int64_t>(row + m) * a.padded_dim + dim + 16 * c);
}

template <int Rows>
inline void weigh_rows(const SpanArgs& a, int query, int row) {
  constexpr int kChunks = Rows == 1 ? 4 : Rows == 2 ? 2 : 1;
  int dim = 0;
  for (; dim + 16 * kChunks <= a.padded_dim; dim += 16 * kChunks)
    weigh_values<Rows, kChunks>(a, query, row, dim);
  for (; dim < a.padded_dim; dim += 16) weigh_values<Rows, 1>(a, query, row, dim);
}

inline void weigh_query(const SpanArgs& a, int query) {
  int row = query * a.group;
  const int last = row + a.group;
  for (; row + 4 <= last; row += 4) weigh_rows<4>(a, query, row);
  if (last - row == 3) weigh_rows<3>(a, query, row);
  if (last - row == 2) weigh_rows<2>(a, query, row);
  if (last - row == 1) weigh_rows<1>(a, query, row);
}

inline void attend_span_rows(const SpanArgs& a) {
  int begin = a.begin[0], end = a.end[0];
  for (int query = 1; query < a.queries; ++query) {
    begin = a.begin[query] < begin ? a.begin[query] : begin;
    end = a.end[query] > end ? a.end[query] : end;
  }
  score_rows(a, begin / 16, (end + 15) / 16);
  for (int row = 0; row < a.queries * a.group; ++row) soften_row(a, row);
  for (int query = 0; query < a.queries; ++query) weigh_query(a, query);
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
