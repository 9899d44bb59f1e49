#pragma once

// AVX-512 intrinsics on SIMDe's emulation, for CPUs that lack the instructions. Needs AVX2, FMA and
// F16C: without them SIMDe's fused multiply-add rounds twice. Emulated instructions stay calls:
// inlined, the kernels take minutes to compile.
#define SIMDE_NO_INLINE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/avx512/dpbusd.h>

#include <cstdint>

namespace {

// What SIMDe 0.7.4 lacks, from 256-bit halves.
inline __m512i join(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
inline __m512 join(__m256 low, __m256 high) {
  return _mm512_castsi512_ps(join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
}
inline __m128i upper(__m256i x) {
  return _mm256_extracti128_si256(x, 1);
}
inline __m256i half_of(__m512i x, int index) {
  __m256i halves[2];
  __builtin_memcpy(halves, &x, sizeof halves);
  return halves[index];
}

inline __m512 emulated_cvtph_ps(__m256i x) {
  return join(_mm256_cvtph_ps(_mm256_castsi256_si128(x)), _mm256_cvtph_ps(upper(x)));
}
inline __m512i emulated_cvtepu8_epi32(__m128i x) {
  return join(_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)));
}
inline __m512i emulated_cvtepi8_epi32(__m128i x) {
  return join(_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)));
}
inline __m512i emulated_cvtepu8_epi16(__m256i x) {
  return join(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(x)), _mm256_cvtepu8_epi16(upper(x)));
}
inline __m512i emulated_cvtepu16_epi32(__m256i x) {
  return join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)), _mm256_cvtepu16_epi32(upper(x)));
}
inline __m256i emulated_cvtepi32_epi16(__m512i x) {
  std::int32_t words[16];
  std::int16_t halves[16];
  __builtin_memcpy(words, &x, sizeof words);
  for (int i = 0; i < 16; ++i) halves[i] = static_cast<std::int16_t>(words[i]);
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves));
}
inline __m512i emulated_srai_epi32(__m512i x, int count) {
  return join(_mm256_srai_epi32(half_of(x, 0), count), _mm256_srai_epi32(half_of(x, 1), count));
}
inline __m512 emulated_cvtepi32_ps(__m512i x) {
  return join(_mm256_cvtepi32_ps(half_of(x, 0)), _mm256_cvtepi32_ps(half_of(x, 1)));
}

// Functions where SIMDe has macros that a comma in a template argument list breaks, or, for madd, a
// macro of the wrong number of parameters.
inline __m512i emulated_or_si512(__m512i a, __m512i b) {
  return simde_mm512_or_si512(a, b);
}
inline __m512i emulated_madd_epi16(__m512i a, __m512i b) {
  return simde_mm512_madd_epi16(a, b);
}

}  // namespace

#undef _mm512_or_si512
#undef _mm512_madd_epi16
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 emulated_srai_epi32
#define _mm512_or_si512 emulated_or_si512
#define _mm512_madd_epi16 emulated_madd_epi16
#define _mm512_cvtph_ps emulated_cvtph_ps
#define _mm512_cvtepu8_epi32 emulated_cvtepu8_epi32
#define _mm512_cvtepi8_epi32 emulated_cvtepi8_epi32
#define _mm512_cvtepu8_epi16 emulated_cvtepu8_epi16
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_cvtepi32_epi16 emulated_cvtepi32_epi16
#define _mm512_cvtepi32_ps emulated_cvtepi32_ps

#define avx512_kernels emulated_avx512_kernels
#define kAvx512Attention kEmulatedAvx512Attention
