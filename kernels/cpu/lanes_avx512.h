#pragma once

#ifndef QUIRE_EMULATED_AVX512  // defined by the test that runs this file on any CPU
#include <immintrin.h>
#endif

#include <bit>
#include <cstdint>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/unrolled.h"

// Sixteen lanes as one AVX-512 register; see lanes_scalar.h for the meaning of each operation.
namespace quire::cpu {
namespace {

inline constexpr int kTileRows = 8;
inline constexpr int kRowsAtOnce = 12;  // query rows attention works on at a time

struct Ints {
  __m512i v;

  static QUIRE_INLINE Ints zero() { return {_mm512_setzero_si512()}; }
  QUIRE_INLINE std::int32_t sum() const {
    const __m256i eight =
        _mm256_add_epi32(_mm512_extracti64x4_epi64(v, 0), _mm512_extracti64x4_epi64(v, 1));
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
  }
};

QUIRE_INLINE __m256 upper_half(__m512 x) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}

struct Lanes {
  __m512 v;

  static QUIRE_INLINE Lanes zero() { return {_mm512_setzero_ps()}; }
  static QUIRE_INLINE Lanes set(float x) { return {_mm512_set1_ps(x)}; }
  static QUIRE_INLINE Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static QUIRE_INLINE __m256i load16(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  static QUIRE_INLINE Lanes load_bf16(const std::uint16_t* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load16(p)), 16))};
  }
  static QUIRE_INLINE Lanes load_bf16_of_pairs(const std::uint8_t* p, int which) {
    const __m512i bits = _mm512_loadu_si512(p);
    return {_mm512_castsi512_ps(which == 0 ? _mm512_slli_epi32(bits, 16)
                                           : _mm512_and_si512(bits, _mm512_set1_epi32(-0x10000)))};
  }
  static QUIRE_INLINE Lanes load_half(const std::uint8_t* p) {
    return {_mm512_cvtph_ps(load16(p))};
  }
  static QUIRE_INLINE Lanes load_int8(const std::int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  static QUIRE_INLINE Lanes from(const Ints& x) { return {_mm512_cvtepi32_ps(x.v)}; }
  QUIRE_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  QUIRE_INLINE float sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), upper_half(v));
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
  }
  QUIRE_INLINE float largest() const {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), upper_half(v));
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
  }
};

QUIRE_INLINE Lanes operator+(const Lanes& a, const Lanes& b) {
  return {_mm512_add_ps(a.v, b.v)};
}
QUIRE_INLINE Lanes operator-(const Lanes& a, const Lanes& b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
QUIRE_INLINE Lanes operator*(const Lanes& a, const Lanes& b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
QUIRE_INLINE Lanes operator/(const Lanes& a, const Lanes& b) {
  return {_mm512_div_ps(a.v, b.v)};
}
QUIRE_INLINE Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
QUIRE_INLINE Lanes fnma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return {_mm512_fnmadd_ps(a.v, b.v, c.v)};
}
QUIRE_INLINE Lanes max(const Lanes& a, const Lanes& b) {
  return {_mm512_max_ps(a.v, b.v)};
}
QUIRE_INLINE Lanes select_less(const Lanes& x, const Lanes& bound, const Lanes& a, const Lanes& b) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_LT_OQ), b.v, a.v)};
}
QUIRE_INLINE std::uint32_t lanes_below(int end) {
  return end <= 0 ? 0u : end >= 16 ? 0xffffu : (1u << end) - 1u;
}
QUIRE_INLINE Lanes select_range(const Lanes& a, const Lanes& b, int begin, int end) {
  const auto mask = static_cast<__mmask16>(lanes_below(end) & ~lanes_below(begin));
  return {_mm512_mask_blend_ps(mask, b.v, a.v)};
}

QUIRE_INLINE Ints rounded(const Lanes& shifted) {
  return {_mm512_sub_epi32(_mm512_castps_si512(shifted.v), _mm512_set1_epi32(0x4b400000))};
}
QUIRE_INLINE Lanes power_of_two(const Lanes& shifted) {
  const __m512i biased = _mm512_add_epi32(_mm512_castps_si512(shifted.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
QUIRE_INLINE std::uint32_t largest_magnitude(const Lanes& a, const Lanes& b) {
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  const __m512i v = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a.v), mask),
                                     _mm512_and_si512(_mm512_castps_si512(b.v), mask));
  const __m256i eight =
      _mm256_max_epi32(_mm512_extracti64x4_epi64(v, 0), _mm512_extracti64x4_epi64(v, 1));
  __m128i x = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(x));
}
QUIRE_INLINE Lanes rounded_to_bf16(const Lanes& x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_mask_blend_epi32(is_nan, nearest, quiet),
                                               _mm512_set1_epi32(-0x10000)))};
}
QUIRE_INLINE void store_bytes(const Ints& x, std::int8_t* p) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(x.v));
}

QUIRE_INLINE __m512i load_bytes(const void* p) {
  return _mm512_loadu_si512(p);
}
template <int Right>
QUIRE_INLINE __m512i shift_bits(__m512i x) {
  if constexpr (Right > 0)
    return _mm512_srli_epi16(x, Right);
  else if constexpr (Right < 0)
    return _mm512_slli_epi16(x, -Right);
  else
    return x;
}
// Bits `From` and up of each byte moved to bit `To`, masked. Shifting 16-bit lanes is fine: what
// crosses a byte is masked off.
template <int From, int To, int Mask>
QUIRE_INLINE __m512i field(const std::uint8_t* p) {
  return _mm512_and_si512(shift_bits<From - To>(load_bytes(p)), _mm512_set1_epi8(Mask));
}

// What stored_weights() adds to a weight, to have it unsigned.
template <PackedFormat F>
constexpr int kOffset = F.bits == 8 || F.codebook != Codebook::kNone ? 128 : F.offset;

// The stored weights of one group, unsigned: 8-bit types and values looked up with 128 added.
template <PackedFormat F, int Group>
QUIRE_INLINE __m512i stored_weights(const std::uint8_t* planes) {
  if constexpr (F.bits == 8) {
    return _mm512_xor_si512(load_bytes(planes + kGroupBytes * Group),
                            _mm512_set1_epi8(static_cast<char>(-128)));
  } else if constexpr (F.bits >= 4) {
    const std::uint8_t* high = planes + 4 * kGroupBytes;
    const __m512i low = field<4 * (Group / 4), 0, 15>(planes + kGroupBytes * (Group % 4));
    if constexpr (F.codebook != Codebook::kNone) {
      const __m128i values =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(codebook_values(F.codebook)));
      return _mm512_xor_si512(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), low),
                              _mm512_set1_epi8(static_cast<char>(-128)));
    }
    if constexpr (F.bits == 4) return low;
    if constexpr (F.bits == 5) return _mm512_or_si512(low, field<Group, 4, 16>(high));
    if constexpr (F.bits == 6)
      return _mm512_or_si512(low, field<2 * (Group / 2), 4, 48>(high + kGroupBytes * (Group % 2)));
  } else {
    const __m512i low = field<2 * (Group / 2), 0, 3>(planes + kGroupBytes * (Group % 2));
    if constexpr (F.bits == 2) return low;
    if constexpr (F.bits == 3)
      return _mm512_or_si512(low, field<Group, 2, 4>(planes + 2 * kGroupBytes));
  }
}

QUIRE_INLINE __m512i broadcast4(const void* p) {
  std::int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm512_set1_epi32(bits);
}

// 16 bytes, extended, in both 16-bit places of 16 lanes.
template <bool Signed = false>
QUIRE_INLINE __m512i twice(const std::uint8_t* bytes) {
  __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
  if constexpr (Signed) {
    wide = _mm512_srai_epi32(_mm512_slli_epi32(wide, 24), 24);
    wide = _mm512_and_si512(wide, _mm512_set1_epi32(0xffff));
  }
  return _mm512_or_si512(wide, _mm512_slli_epi32(wide, 16));
}

// A K block's scales and minimums as pairs of 16-bit values (inputs 0-15, 16-31), a pair a row.
template <PackedFormat F>
struct BlockScales {
  __m512i scales, minimums;

  explicit QUIRE_INLINE BlockScales(const std::uint8_t* area) {
    minimums = _mm512_setzero_si512();
    if constexpr (F.halves) {
      const __m256i bytes = Lanes::load16(area);
      if constexpr (F.min) {
        const __m256i mask = _mm256_set1_epi8(15);
        scales = _mm512_cvtepu8_epi16(_mm256_and_si256(bytes, mask));
        minimums = _mm512_cvtepu8_epi16(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask));
      } else {
        scales = _mm512_cvtepi8_epi16(bytes);
      }
    } else {
      scales = twice<F.codebook != Codebook::kNone>(area);
      if constexpr (F.min) minimums = twice(area + kPanelRows);
    }
  }
  // The scale of one half of the inputs as a 32-bit value.
  template <int Part>
  QUIRE_INLINE __m512i of_part() const {
    if constexpr (Part == 0) return _mm512_srai_epi32(_mm512_slli_epi32(scales, 16), 16);
    return _mm512_srai_epi32(scales, 16);
  }
};

// Sum of stored * q over the groups of one half (or, one scale a block, of the whole block).
template <PackedFormat F, int Rows, int First, int Count>
QUIRE_INLINE void stored_dots(const std::uint8_t* planes, const std::int8_t* const (&q)[Rows],
                              std::int64_t at, __m512i (&dots)[Rows]) {
  unrolled<Rows>([&](auto m) __attribute__((always_inline)) { dots[m] = _mm512_setzero_si512(); });
  unrolled<Count>([&](auto step) __attribute__((always_inline)) {
    constexpr int kGroup = First + step;
    const __m512i w = stored_weights<F, kGroup>(planes);
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
      dots[m] = _mm512_dpbusd_epi32(dots[m], w, broadcast4(q[m] + at + 4 * kGroup));
    });
  });
}

template <PackedFormat F, int Rows>
QUIRE_INLINE void simple_dots(const std::uint8_t* planes, const std::int8_t* const (&q)[Rows],
                              const std::int16_t (*const (&sums)[Rows])[2], std::int64_t index,
                              Ints (&dots)[Rows]) {
  __m512i d[Rows];
  stored_dots<F, Rows, 0, kGroups>(planes, q, index * kBlock, d);
  unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
    if constexpr (kOffset<F> != 0) {
      const std::int32_t sum = sums[m][index][0] + sums[m][index][1];
      d[m] = _mm512_sub_epi32(d[m], _mm512_set1_epi32(kOffset<F> * sum));
    }
    dots[m] = {d[m]};
  });
}

template <PackedFormat F, int Rows>
QUIRE_INLINE void scaled_dots(const std::uint8_t* block, const std::int8_t* const (&q)[Rows],
                              const std::int16_t (*const (&sums)[Rows])[2], std::int64_t index,
                              Ints (&dots)[Rows], Ints (&mins)[Rows]) {
  const std::uint8_t* planes = block + kScaleAreaBytes;
  const BlockScales<F> s(block);
  __m512i d[Rows];
  if constexpr (F.halves) {
    __m512i second[Rows];
    stored_dots<F, Rows, 0, 4>(planes, q, index * kBlock, d);
    stored_dots<F, Rows, 4, 4>(planes, q, index * kBlock, second);
    const __m512i s0 = s.template of_part<0>(), s1 = s.template of_part<1>();
    unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
      d[m] = _mm512_add_epi32(_mm512_mullo_epi32(d[m], s0), _mm512_mullo_epi32(second[m], s1));
    });
  } else {
    stored_dots<F, Rows, 0, kGroups>(planes, q, index * kBlock, d);
    const __m512i scale = s.template of_part<0>();
    unrolled<Rows>([&](auto m)
                       __attribute__((always_inline)) { d[m] = _mm512_mullo_epi32(d[m], scale); });
  }
  unrolled<Rows>([&](auto m) __attribute__((always_inline)) {
    const __m512i x = broadcast4(sums[m][index]);
    if constexpr (kOffset<F> != 0) {
      constexpr int kShift = std::countr_zero(static_cast<unsigned>(kOffset<F>));
      d[m] = _mm512_sub_epi32(d[m], _mm512_slli_epi32(_mm512_madd_epi16(x, s.scales), kShift));
    }
    dots[m] = {d[m]};
    if constexpr (F.min) mins[m] = {_mm512_madd_epi16(x, s.minimums)};
  });
}

template <PackedFormat F, int Rows>
QUIRE_INLINE void block_dots(const std::uint8_t* block, const std::int8_t* const (&q)[Rows],
                             const std::int16_t (*const (&sums)[Rows])[2], std::int64_t index,
                             Ints (&dots)[Rows], Ints (&mins)[Rows]) {
  if constexpr (F.super)
    scaled_dots<F, Rows>(block, q, sums, index, dots, mins);
  else
    simple_dots<F, Rows>(block, q, sums, index, dots);
}

inline constexpr int kInt8OpsPerRound = 2 * kRowsAtOnce * 64;
inline std::int32_t burn_int8_lanes(std::int64_t rounds) {
  const __m512i weights = _mm512_set1_epi8(5), x = _mm512_set1_epi8(3);
  __m512i sums[kRowsAtOnce];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (std::int64_t r = 0; r < rounds; ++r)
    unrolled<kRowsAtOnce>([&](auto i) __attribute__((always_inline)) {
      sums[i] = _mm512_dpbusd_epi32(sums[i], weights, x);
    });
  for (int i = 1; i < kRowsAtOnce; ++i) sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  return Ints{sums[0]}.sum();
}

}  // namespace
}  // namespace quire::cpu
