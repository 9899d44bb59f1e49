#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/unrolled.h"

// Sixteen lanes as two AVX2 registers; see lanes_scalar.h for the meaning of each operation.
namespace quire::cpu {
namespace {

inline constexpr int kTileRows = 4;    // activation rows a panel is multiplied with at a time
inline constexpr int kRowsAtOnce = 6;  // query rows attention works on at a time

struct Ints {
  __m256i lo, hi;

  static QUIRE_INLINE Ints zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  QUIRE_INLINE std::int32_t sum() const {
    const __m256i both = _mm256_add_epi32(lo, hi);
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
  }
};

struct Lanes {
  __m256 lo, hi;

  static QUIRE_INLINE Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static QUIRE_INLINE Lanes set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static QUIRE_INLINE Lanes load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  static QUIRE_INLINE __m256 widen(const std::uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static QUIRE_INLINE Lanes load_bf16(const std::uint16_t* p) { return {widen(p), widen(p + 8)}; }
  static QUIRE_INLINE __m256 of_pairs(const std::uint8_t* p, int which) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_castsi256_ps(which == 0 ? _mm256_slli_epi32(bits, 16)
                                          : _mm256_and_si256(bits, _mm256_set1_epi32(-0x10000)));
  }
  static QUIRE_INLINE Lanes load_bf16_of_pairs(const std::uint8_t* p, int which) {
    return {of_pairs(p, which), of_pairs(p + 32, which)};
  }
  static QUIRE_INLINE Lanes load_half(const std::uint8_t* p) {
    const auto* halves = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
  }
  static QUIRE_INLINE __m256 widen(const std::int8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static QUIRE_INLINE Lanes load_int8(const std::int8_t* p) { return {widen(p), widen(p + 8)}; }
  static QUIRE_INLINE Lanes from(const Ints& x) {
    return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)};
  }
  QUIRE_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
  }
  QUIRE_INLINE float sum() const {
    const __m256 eight = _mm256_add_ps(lo, hi);
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
  }
  QUIRE_INLINE float largest() const {
    const __m256 eight = _mm256_max_ps(lo, hi);
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
  }
};

QUIRE_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
QUIRE_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
QUIRE_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
QUIRE_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
QUIRE_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_INLINE Lanes fnma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
QUIRE_INLINE Lanes max(const Lanes& a, const Lanes& b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
QUIRE_INLINE Lanes select_less(const Lanes& x, const Lanes& bound, const Lanes& a, const Lanes& b) {
  return {_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, bound.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, bound.hi, _CMP_LT_OQ))};
}
QUIRE_INLINE __m256 range_mask(int begin, int end) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i from = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), index);
  return _mm256_castsi256_ps(
      _mm256_andnot_si256(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(end), index)));
}
QUIRE_INLINE Lanes select_range(const Lanes& a, const Lanes& b, int begin, int end) {
  return {_mm256_blendv_ps(b.lo, a.lo, range_mask(begin, end)),
          _mm256_blendv_ps(b.hi, a.hi, range_mask(begin - 8, end - 8))};
}

QUIRE_INLINE Ints rounded(const Lanes& shifted) {
  const __m256i magic = _mm256_set1_epi32(0x4b400000);
  return {_mm256_sub_epi32(_mm256_castps_si256(shifted.lo), magic),
          _mm256_sub_epi32(_mm256_castps_si256(shifted.hi), magic)};
}
QUIRE_INLINE __m256 power_of_two(__m256 shifted) {
  const __m256i biased = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
QUIRE_INLINE Lanes power_of_two(const Lanes& shifted) {
  return {power_of_two(shifted.lo), power_of_two(shifted.hi)};
}
QUIRE_INLINE __m256i magnitude(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}
QUIRE_INLINE std::uint32_t largest_magnitude(const Lanes& a, const Lanes& b) {
  const __m256i eight = _mm256_max_epi32(_mm256_max_epi32(magnitude(a.lo), magnitude(a.hi)),
                                         _mm256_max_epi32(magnitude(b.lo), magnitude(b.hi)));
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(x));
}
QUIRE_INLINE __m256 rounded_to_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), upper = _mm256_set1_epi32(-0x10000);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_castsi256_ps(
      _mm256_and_si256(_mm256_blendv_epi8(nearest, quiet, _mm256_castps_si256(is_nan)), upper));
}
QUIRE_INLINE Lanes rounded_to_bf16(const Lanes& x) {
  return {rounded_to_bf16(x.lo), rounded_to_bf16(x.hi)};
}
QUIRE_INLINE void store_bytes(const Ints& x, std::int8_t* p) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

QUIRE_INLINE __m256i load_bytes(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
template <int Right>
QUIRE_INLINE __m256i shift_bits(__m256i x) {
  if constexpr (Right > 0)
    return _mm256_srli_epi16(x, Right);
  else if constexpr (Right < 0)
    return _mm256_slli_epi16(x, -Right);
  else
    return x;
}
// Bits `From` and up of each byte moved to bit `To`, masked. Shifting 16-bit lanes is fine: what
// crosses a byte is masked off.
template <int From, int To, int Mask>
QUIRE_INLINE __m256i field(const std::uint8_t* p) {
  return _mm256_and_si256(shift_bits<From - To>(load_bytes(p)), _mm256_set1_epi8(Mask));
}

// The stored weights of rows 8 * Half .. + 8 in one group: 32 bytes, unsigned (8-bit types:
// signed).
template <PackedFormat F, int Group, int Half>
QUIRE_INLINE __m256i stored_weights(const std::uint8_t* planes) {
  const std::uint8_t* base = planes + 32 * Half;
  if constexpr (F.bits == 8) {
    return load_bytes(base + kGroupBytes * Group);
  } else if constexpr (F.bits >= 4) {
    const std::uint8_t* high = base + 4 * kGroupBytes;
    const __m256i low = field<4 * (Group / 4), 0, 15>(base + kGroupBytes * (Group % 4));
    if constexpr (F.bits == 4) return low;
    if constexpr (F.bits == 5) return _mm256_or_si256(low, field<Group, 4, 16>(high));
    if constexpr (F.bits == 6)
      return _mm256_or_si256(low, field<2 * (Group / 2), 4, 48>(high + kGroupBytes * (Group % 2)));
  } else {
    const __m256i low = field<2 * (Group / 2), 0, 3>(base + kGroupBytes * (Group % 2));
    if constexpr (F.bits == 2) return low;
    if constexpr (F.bits == 3)
      return _mm256_or_si256(low, field<Group, 2, 4>(base + 2 * kGroupBytes));
  }
}

// The weights of one group as signed bytes, of a type that has them or looks them up.
template <PackedFormat F, int Group, int Half>
QUIRE_INLINE __m256i signed_weights(const std::uint8_t* planes) {
  const __m256i stored = stored_weights<F, Group, Half>(planes);
  if constexpr (F.codebook == Codebook::kNone) return stored;
  const __m128i values =
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook_values(F.codebook)));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), stored);
}

QUIRE_INLINE __m256i broadcast4(const void* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm256_set1_epi32(bits);
}

// Has a running sum computed where it is written. GCC otherwise moves all additions of an unrolled
// block behind all its multiplications and spills the products.
QUIRE_INLINE void settle(__m256i& sum) {
  asm("" : "+x"(sum));
}

// A K block's scales and minimums of 8 rows as pairs of 16-bit values (inputs 0-15, 16-31).
template <PackedFormat F, int Half>
struct BlockScales {
  __m256i scales, minimums;

  explicit QUIRE_INLINE BlockScales(const std::uint8_t* area) {
    minimums = _mm256_setzero_si256();
    if constexpr (F.halves) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(area + 2 * 8 * Half));
      if constexpr (F.min) {
        const __m128i mask = _mm_set1_epi8(15);
        scales = _mm256_cvtepu8_epi16(_mm_and_si128(bytes, mask));
        minimums = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(bytes, 4), mask));
      } else {
        scales = _mm256_cvtepi8_epi16(bytes);
      }
    } else {
      scales = twice(area + 8 * Half);
      if constexpr (F.min) minimums = twice(area + kPanelRows + 8 * Half);
    }
  }
  static QUIRE_INLINE __m256i twice(const std::uint8_t* bytes) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
    if constexpr (F.codebook != Codebook::kNone) {  // signed
      const __m256i wide = _mm256_cvtepi8_epi32(eight);
      return _mm256_blend_epi16(wide, _mm256_slli_epi32(wide, 16), 0xaa);
    }
    const __m256i wide = _mm256_cvtepu8_epi32(eight);
    return _mm256_or_si256(wide, _mm256_slli_epi32(wide, 16));
  }
  // The scale of one half of the inputs, in both 16-bit places.
  template <int Part>
  QUIRE_INLINE __m256i of_part() const {
    if constexpr (!F.halves) return scales;
    const __m256i pick =
        Part == 0 ? _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1,
                                     4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13)
                  : _mm256_setr_epi8(2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15, 2, 3,
                                     2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15);
    return _mm256_shuffle_epi8(scales, pick);
  }
};

// How many groups maddubs results can be added up in 16 bits without overflow: a result is at most
// 2 * 127 * (2^bits - 1), so 8 * 3810, 4 * 7874 and 2 * 16002 stay below 2^15.
constexpr int groups_in_16_bits(const PackedFormat& f) {
  const int fits = f.bits <= 4 ? 8 : f.bits == 5 ? 4 : 2;
  return f.halves && fits > 4 ? 4 : fits;
}

template <PackedFormat F, int Rows>
QUIRE_INLINE void unsigned_dots(const std::uint8_t* block, const std::int8_t* const (&q)[Rows],
                                std::int64_t at, __m256i (&dots)[Rows][2],
                                const BlockScales<F, 0>& s0, const BlockScales<F, 1>& s1) {
  constexpr int kRun = groups_in_16_bits(F);
  const std::uint8_t* planes = block + (F.super ? kScaleAreaBytes : 0);
  unrolled<kGroups / kRun>([&](auto run) __attribute__((always_inline)) {
    __m256i words[Rows][2];
    unrolled<kRun>([&](auto step) __attribute__((always_inline)) {
      constexpr int kGroup = run * kRun + step;
      const __m256i w0 = stored_weights<F, kGroup, 0>(planes);
      const __m256i w1 = stored_weights<F, kGroup, 1>(planes);
      unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
        const __m256i x = broadcast4(q[m] + at + 4 * kGroup);
        const __m256i p0 = _mm256_maddubs_epi16(w0, x), p1 = _mm256_maddubs_epi16(w1, x);
        words[m][0] = step == 0 ? p0 : _mm256_add_epi16(words[m][0], p0);
        words[m][1] = step == 0 ? p1 : _mm256_add_epi16(words[m][1], p1);
        settle(words[m][0]);
        settle(words[m][1]);
      });
    });
    constexpr int kPart = run * kRun / 4;
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i f0 = F.super ? s0.template of_part<kPart>() : ones;
    const __m256i f1 = F.super ? s1.template of_part<kPart>() : ones;
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
      const __m256i d0 = _mm256_madd_epi16(words[m][0], f0);
      const __m256i d1 = _mm256_madd_epi16(words[m][1], f1);
      dots[m][0] = run == 0 ? d0 : _mm256_add_epi32(dots[m][0], d0);
      dots[m][1] = run == 0 ? d1 : _mm256_add_epi32(dots[m][1], d1);
      settle(dots[m][0]);
      settle(dots[m][1]);
    });
  });
}

// Signed weights: |w| * (x with w's sign) is w * x, and |w| <= 128, |x| <= 127 keep a pair of
// products below 2^15, so maddubs does not saturate.
// `factors` scale each row's pairs of products, by halves of the rows.
template <PackedFormat F, int Rows>
QUIRE_INLINE void signed_dots(const std::uint8_t* planes, const std::int8_t* const (&q)[Rows],
                              std::int64_t at, __m256i (&dots)[Rows][2],
                              const __m256i (&factors)[2]) {
  unrolled<kGroups>([&](auto group) __attribute__((always_inline)) {
    unrolled<2>([&](auto half) __attribute__((always_inline)) {
      const __m256i w = signed_weights<F, group, half>(planes);
      const __m256i magnitudes = _mm256_abs_epi8(w);
      unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
        const __m256i x = _mm256_sign_epi8(broadcast4(q[m] + at + 4 * group), w);
        const __m256i d = _mm256_madd_epi16(_mm256_maddubs_epi16(magnitudes, x), factors[half]);
        dots[m][half] = group == 0 ? d : _mm256_add_epi32(dots[m][half], d);
        settle(dots[m][half]);
      });
    });
  });
}

template <PackedFormat F, int Rows>
QUIRE_INLINE void block_dots(const std::uint8_t* block, const std::int8_t* const (&q)[Rows],
                             const std::int16_t (*const (&sums)[Rows])[2], std::int64_t index,
                             Ints (&dots)[Rows], Ints (&mins)[Rows]) {
  __m256i d[Rows][2];
  if constexpr (F.bits == 8 || F.codebook != Codebook::kNone) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (F.super) {
      const BlockScales<F, 0> s0(block);
      const BlockScales<F, 1> s1(block);
      signed_dots<F, Rows>(block + kScaleAreaBytes, q, index * kBlock, d, {s0.scales, s1.scales});
    } else {
      signed_dots<F, Rows>(block, q, index * kBlock, d, {ones, ones});
    }
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) { dots[m] = {d[m][0], d[m][1]}; });
  } else {
    const BlockScales<F, 0> s0(block);
    const BlockScales<F, 1> s1(block);
    unsigned_dots<F, Rows>(block, q, index * kBlock, d, s0, s1);
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
      if constexpr (F.offset != 0) {
        constexpr int kShift = std::countr_zero(static_cast<unsigned>(F.offset));
        const __m256i x = broadcast4(sums[m][index]);
        const __m256i ones = _mm256_set1_epi16(1);
        const __m256i o0 = _mm256_madd_epi16(x, F.super ? s0.scales : ones);
        const __m256i o1 = _mm256_madd_epi16(x, F.super ? s1.scales : ones);
        d[m][0] = _mm256_sub_epi32(d[m][0], _mm256_slli_epi32(o0, kShift));
        d[m][1] = _mm256_sub_epi32(d[m][1], _mm256_slli_epi32(o1, kShift));
      }
      dots[m] = {d[m][0], d[m][1]};
      if constexpr (F.super && F.min) {
        const __m256i x = broadcast4(sums[m][index]);
        mins[m] = {_mm256_madd_epi16(x, s0.minimums), _mm256_madd_epi16(x, s1.minimums)};
      }
    });
  }
}

// Four sums over blocks of 32 inputs of 8 rows, as unsigned_dots() forms them for 4-bit weights.
// The weights are made opaque so that no product is the same as the one before.
inline constexpr int kInt8OpsPerRound = 2 * 4 * 8 * 32;
inline std::int32_t burn_int8_lanes(std::int64_t rounds) {
  const __m256i x = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  __m256i weights = _mm256_set1_epi8(5), sums[4];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (std::int64_t r = 0; r < rounds; ++r) {
    __m256i words[4];
    unrolled<8>([&](auto group) __attribute__((always_inline)) {
      unrolled<4>([&](auto i) __attribute__((always_inline)) {
        settle(weights);
        const __m256i products = _mm256_maddubs_epi16(weights, x);
        words[i] = group == 0 ? products : _mm256_add_epi16(words[i], products);
        settle(words[i]);
      });
    });
    for (int i = 0; i < 4; ++i)
      sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(words[i], ones));
  }
  return Ints{_mm256_add_epi32(sums[0], sums[1]), _mm256_add_epi32(sums[2], sums[3])}.sum();
}

}  // namespace
}  // namespace quire::cpu
