#pragma once

#include "kernels/cpu/attention_outputs.h"
#include "kernels/cpu/attention_scores.h"

// Attention of some query rows over one span of keys, written once over Lanes. Include after a
// lanes_*.h.
//
// Order: a score is an FMA chain over the head's dims, ascending; the sum of weights adds tiles of
// 16 positions lane by lane and the lanes at the end; an output is an FMA chain over the visible
// positions, ascending. A stored key or value is widened to a float, and multiplied by its scale
// when it has one, before it enters a chain. A row's results depend on its own query and on the
// keys it sees alone.
//
// With BF16 keys and values the order is that of AMX's tdpbf16ps: per kPairStep dims, or positions
// of the span, one chain over the even and one over the odd ones, both from zero, whose sum is
// added to the score, or output. Queries come rounded to BF16; weights are rounded to it before
// they are summed and used. A position that a row does not see may count as a weight of zero
// there, which changes nothing but, where a result underflowed, the sign of a zero.
//
// Up to kRowsAtOnce rows read keys and values as they are stored: less work than memory takes to
// deliver them, so scoring fetches the span's values ahead, and weighing the next span's keys,
// evenly all along. More rows share keys and values as floats.
namespace quire::cpu {
namespace {

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
    const Value<Stored> value(stored, p, 0);
    for (int dim = 0; dim < whole; dim += 16) value.chunk(0, dim / 16).store(target + dim);
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
  int begin, end;
  seen_by_any(a, begin, end);
  const int rows = a.queries * a.group, first = begin / 16, last = (end + 15) / 16;
  const Tiles stored{a.tiles, a.head_dim, (a.head_dim + kKvScaleDims - 1) / kKvScaleDims};
  if (rows <= kRowsAtOnce && a.head_dim % 16 == 0) {
    score_all<Stored, true>(a, a.tiles + first, first, last);
    soften_rows<Stored>(a);
    weigh_all<Stored, true>(a, stored, 0, a.padded_dim);
    return;
  }
  StoredTile floats[kSpan / 16];
  for (int tile = first; tile < last; ++tile) {
    widen_keys<Stored>(a, a.tiles[tile]);
    floats[tile].keys = reinterpret_cast<const std::uint8_t*>(a.key_floats);
    floats[tile].values = reinterpret_cast<const std::uint8_t*>(
        a.value_floats + std::int64_t{tile} * 16 * a.padded_dim);
    score_all<Widened<Stored>, false>(a, floats + tile, tile, tile + 1);
  }
  soften_rows<Stored>(a);
  widen_values<Stored>(a, stored, begin, end);
  // A slice of 16 dims of all values at a time: it stays in the first-level cache for all rows.
  for (int dim = 0; dim < a.padded_dim; dim += 16)
    weigh_all<Widened<Stored>, false>(a, {floats, a.padded_dim, 0}, dim, dim + 16);
}

inline void round_query_rows(float* q, std::int64_t count, std::uint16_t*) {
  round_row(q, count, q);
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
  kernels.round_queries = round_query_rows;
  kernels.merge_span = merge_span_row;
  return kernels;
}

}  // namespace
}  // namespace quire::cpu
