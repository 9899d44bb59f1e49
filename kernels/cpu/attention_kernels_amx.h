#pragma once

// BF16 attention of some query rows over one span of keys on AMX tiles, in the order
// attention_kernels.h states. Include after lanes_avx512.h, attention_scores.h and the tiles. All
// tiles are 16 rows of 64 bytes.
namespace quire::cpu {
namespace {

// With fewer rows, pairing keys and values takes longer than the tiles save.
inline constexpr int kFewestAttentionRows = 8;

inline constexpr int kMostSums = 4, kRowsTile = 6, kPairsTile = 7;  // sums: tiles 0 to 3

// The halves of x, element by element in turn.
inline __m512i interleave(__m512i x) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, x);
}

// A tile's keys as [head_dim / 2][16][2].
inline void pair_keys(const StoredTile& tile, int head_dim, std::uint16_t* pairs) {
  for (int d = 0; d < head_dim; d += 2)
    _mm512_storeu_si512(pairs + d * 16,
                        interleave(_mm512_loadu_si512(tile.keys + d * 16 * sizeof *pairs)));
}

// Values as [positions / 2][head_dim][2], from the step that holds `begin` to the end of the one
// that holds `end` - 1; zeros for positions before `begin` and from `end` on, which may be anything
// in the pool. False when one of the others is infinite or not a number: a weight of zero would
// not hide it.
inline bool pair_values(const StoredTile* tiles, int head_dim, int begin, int end,
                        std::uint16_t* pairs) {
  const __m512i infinity = _mm512_set1_epi16(0x7f80);
  __m512i largest = _mm512_setzero_si512();
  const auto load = [&](int p, int d) {
    if (p < begin || p >= end) return _mm256_setzero_si256();
    const std::uint8_t* values = tiles[p / 16].values + (p % 16 * head_dim + d) * sizeof *pairs;
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  };
  const int last = (end + kPairStep - 1) / kPairStep * kPairStep;
  for (int p = begin / kPairStep * kPairStep; p < last; p += 2)
    for (int d = 0; d < head_dim; d += 16) {
      const __m512i both =
          _mm512_inserti64x4(_mm512_castsi256_si512(load(p, d)), load(p + 1, d), 1);
      largest = _mm512_max_epu16(largest, _mm512_and_si512(both, _mm512_set1_epi16(0x7fff)));
      _mm512_storeu_si512(pairs + p * head_dim + 2 * d, interleave(both));
    }
  return _mm512_cmpge_epu16_mask(largest, infinity) == 0;
}

// BF16 numbers of float lanes that hold such.
inline __m256i packed(const Lanes& x) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x.v), 16));
}

// Over the scores: a row's BF16 weights take the first half of its memory.
struct PackedWeight : RoundedWeight {
  static inline void store(const Lanes& weight, float* scores, int p) {
    auto* weights = reinterpret_cast<std::uint16_t*>(scores) + p;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights), packed(weight));
  }
};

// Zeros for positions [p, end), whole tiles.
inline void clear_weights(const SpanArgs& a, int row, int p, int end) {
  for (; p < end; p += 16)
    PackedWeight::store(Lanes::zero(), a.scores + static_cast<std::int64_t>(row) * kSpan, p);
}

// out[Tiles * 16 rows, 16] = rows * pairs^T, over `steps` steps of 32. Strides in bytes.
template <int Tiles>
inline void multiply_pairs(const std::uint16_t* rows, std::int64_t row_stride,
                           const std::uint16_t* pairs, std::int64_t pair_stride, int steps,
                           float* out, std::int64_t out_stride) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows);
  const auto* pair_bytes = reinterpret_cast<const std::uint8_t*>(pairs);
  unrolled<Tiles>([](auto t) { tile_zero<t>(); });
  for (int step = 0; step < steps; ++step, bytes += kTileRowBytes, pair_bytes += 16 * pair_stride) {
    tile_load<kPairsTile>(pair_bytes, pair_stride);
    unrolled<Tiles>([&](auto t) __attribute__((always_inline)) {
      tile_load<kRowsTile>(bytes + t * 16 * row_stride, row_stride);
      tile_dot_bf16<t, kRowsTile, kPairsTile>();
    });
  }
  unrolled<Tiles>([&](auto t) __attribute__((always_inline)) {
    tile_store<t>(reinterpret_cast<std::uint8_t*>(out) + t * 16 * out_stride, out_stride);
  });
}

// All `count` rows, up to kMostSums tiles at a time; writes whole tiles.
template <int Tiles = kMostSums>
inline void multiply_all_pairs(int count, const std::uint16_t* rows, std::int64_t row_stride,
                               const std::uint16_t* pairs, std::int64_t pair_stride, int steps,
                               float* out, std::int64_t out_stride) {
  if constexpr (Tiles > 0) {
    for (; count > (Tiles - 1) * 16; count -= Tiles * 16) {
      multiply_pairs<Tiles>(rows, row_stride, pairs, pair_stride, steps, out, out_stride);
      rows += Tiles * 16 * row_stride / static_cast<int>(sizeof *rows);
      out += Tiles * 16 * out_stride / static_cast<int>(sizeof *out);
    }
    multiply_all_pairs<Tiles - 1>(count, rows, row_stride, pairs, pair_stride, steps, out,
                                  out_stride);
  }
}

// False, with nothing but scratch written, when the values are not all finite.
inline bool attend_span_tiles(const SpanArgs& a) {
  int begin, end;
  seen_by_any(a, begin, end);
  auto* values = reinterpret_cast<std::uint16_t*>(a.value_floats);
  if (!pair_values(a.tiles, a.head_dim, begin, end, values)) return false;

  constexpr std::int64_t kScoreStride = kSpan * sizeof(float);
  const int rows = a.queries * a.group;
  auto* keys = reinterpret_cast<std::uint16_t*>(a.key_floats);
  for (int tile = begin / 16; tile * 16 < end; ++tile) {
    pair_keys(a.tiles[tile], a.head_dim, keys);
    multiply_all_pairs(rows, a.q_bf16, a.padded_dim * 2, keys, kTileRowBytes,
                       a.head_dim / kPairStep, a.scores + tile * 16, kScoreStride);
  }

  const int first = begin / kPairStep * kPairStep;
  const int last = (end + kPairStep - 1) / kPairStep * kPairStep;
  for (int row = 0; row < rows; ++row) {
    soften_row<PackedWeight>(a, row);
    const int query = row / a.group;
    clear_weights(a, row, first, a.begin[query] / 16 * 16);
    clear_weights(a, row, (a.end[query] + 15) / 16 * 16, last);
  }

  const auto* weights = reinterpret_cast<const std::uint16_t*>(a.scores) + first;
  for (int dim = 0; dim < a.head_dim; dim += 16)
    multiply_all_pairs(rows, weights, kScoreStride, values + first * a.head_dim + 2 * dim,
                       a.head_dim * 4, (last - first) / kPairStep, a.out + dim, a.padded_dim * 4);
  return true;
}

inline void round_and_pack_queries(float* q, std::int64_t count, std::uint16_t* q_bf16) {
  for (std::int64_t i = 0; i < count; i += 16) {
    const Lanes rounded = rounded_to_bf16(Lanes::load(q + i));
    rounded.store(q + i);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q_bf16 + i), packed(rounded));
  }
}

}  // namespace
}  // namespace quire::cpu
