#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/unrolled.h"
#include "kernels/dtype.h"

// Sixteen lanes in plain C++. Included by one source file, as the other lanes_*.h are: everything
// is in an unnamed namespace so that code compiled for one instruction set is never linked into
// another.
namespace quire::cpu {
namespace {

inline constexpr int kTileRows = 4;    // activation rows a panel is multiplied with at a time
inline constexpr int kRowsAtOnce = 4;  // query rows attention works on at a time

struct Ints {
  std::int32_t v[16];

  static Ints zero() { return {}; }
  std::int32_t sum() const {
    std::int32_t total = 0;
    for (std::int32_t lane : v) total += lane;
    return total;
  }
};

struct Lanes {
  float v[16];

  static Lanes zero() { return {}; }
  static Lanes set(float x) {
    Lanes r;
    for (float& lane : r.v) lane = x;
    return r;
  }
  static Lanes load(const float* p) {
    Lanes r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static Lanes load_bf16(const std::uint16_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = bf16_to_float(p[i]);
    return r;
  }
  // The first or the second of 16 pairs.
  static Lanes load_bf16_of_pairs(const std::uint8_t* p, int which) {
    Lanes r;
    for (int i = 0; i < 16; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, p + 4 * i + 2 * which, 2);
      r.v[i] = bf16_to_float(bits);
    }
    return r;
  }
  static Lanes load_half(const std::uint8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, p + 2 * i, 2);
      r.v[i] = half_to_float(bits);
    }
    return r;
  }
  static Lanes load_int8(const std::int8_t* p) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = p[i];
    return r;
  }
  static Lanes from(const Ints& ints) {
    Lanes r;
    for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(ints.v[i]);
    return r;
  }
  void store(float* p) const { std::memcpy(p, v, sizeof v); }

  // Lane l + lane l + 8, then + 4, + 2, + 1.
  float sum() const {
    float s[16];
    std::memcpy(s, v, sizeof s);
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) s[i] = s[i] + s[i + width];
    return s[0];
  }
  float largest() const {
    float s[16];
    std::memcpy(s, v, sizeof s);
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) s[i] = s[i] > s[i + width] ? s[i] : s[i + width];
    return s[0];
  }
};

inline Lanes operator+(Lanes a, const Lanes& b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] + b.v[i];
  return a;
}
inline Lanes operator-(Lanes a, const Lanes& b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] - b.v[i];
  return a;
}
inline Lanes operator*(Lanes a, const Lanes& b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] * b.v[i];
  return a;
}
inline Lanes operator/(Lanes a, const Lanes& b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] / b.v[i];
  return a;
}
// a * b + c, rounded once.
inline Lanes fma(Lanes a, const Lanes& b, const Lanes& c) {
  for (int i = 0; i < 16; ++i) a.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
  return a;
}
// c - a * b, rounded once.
inline Lanes fnma(Lanes a, const Lanes& b, const Lanes& c) {
  for (int i = 0; i < 16; ++i) a.v[i] = std::fma(-a.v[i], b.v[i], c.v[i]);
  return a;
}
// a > b ? a : b, as the instruction does it (b when unordered).
inline Lanes max(Lanes a, const Lanes& b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
// x < bound ? a : b
inline Lanes select_less(const Lanes& x, const Lanes& bound, Lanes a, const Lanes& b) {
  for (int i = 0; i < 16; ++i) a.v[i] = x.v[i] < bound.v[i] ? a.v[i] : b.v[i];
  return a;
}
// Lanes [begin, end) of a, the rest of b.
inline Lanes select_range(Lanes a, const Lanes& b, int begin, int end) {
  for (int i = 0; i < 16; ++i) a.v[i] = i >= begin && i < end ? a.v[i] : b.v[i];
  return a;
}

inline std::int32_t bits_of(float x) {
  std::int32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

// The integers a float holds after 1.5 * 2^23 was added to it.
inline Ints rounded(const Lanes& shifted) {
  Ints r;
  for (int i = 0; i < 16; ++i) r.v[i] = bits_of(shifted.v[i]) - 0x4b400000;
  return r;
}
// 2^n for such an integer n in [-126, 127]; anything for others.
inline Lanes power_of_two(const Lanes& shifted) {
  Lanes r;
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t bits = (static_cast<std::uint32_t>(bits_of(shifted.v[i])) + 127u) << 23;
    std::memcpy(&r.v[i], &bits, 4);
  }
  return r;
}
// The bits of the largest magnitude among both; NaN counts as larger than infinity.
inline std::uint32_t largest_magnitude(const Lanes& a, const Lanes& b) {
  std::uint32_t largest = 0;
  for (const Lanes* lanes : {&a, &b})
    for (float x : lanes->v) {
      const std::uint32_t bits = static_cast<std::uint32_t>(bits_of(x)) & 0x7fffffffu;
      if (bits > largest) largest = bits;
    }
  return largest;
}
// The nearest BF16 numbers, ties to even.
inline Lanes rounded_to_bf16(Lanes x) {
  for (float& lane : x.v) lane = bf16_to_float(float_to_bf16(lane));
  return x;
}
// Values in [-128, 127].
inline void store_bytes(const Ints& ints, std::int8_t* p) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(ints.v[i]);
}

// The stored weight of input 4 * group + k; lane = 4 * row + k.
template <PackedFormat F>
inline int stored_weight(const std::uint8_t* planes, int group, int lane) {
  const std::uint8_t* high = planes + (F.bits >= 4 ? 4 : 2) * kGroupBytes;
  if constexpr (F.bits == 8)
    return static_cast<std::int8_t>(planes[kGroupBytes * group + lane]);
  else if constexpr (F.bits >= 4) {
    int stored = (planes[kGroupBytes * (group % 4) + lane] >> (4 * (group / 4))) & 15;
    if constexpr (F.codebook != Codebook::kNone) return codebook_values(F.codebook)[stored];
    if constexpr (F.bits == 5) stored |= ((high[lane] >> group) & 1) << 4;
    if constexpr (F.bits == 6)
      stored |= ((high[kGroupBytes * (group % 2) + lane] >> (2 * (group / 2))) & 3) << 4;
    return stored;
  } else {
    int stored = (planes[kGroupBytes * (group % 2) + lane] >> (2 * (group / 2))) & 3;
    if constexpr (F.bits == 3) stored |= ((high[lane] >> group) & 1) << 2;
    return stored;
  }
}

template <PackedFormat F>
inline int scale_of(const std::uint8_t* area, int row, int half) {
  if constexpr (!F.super) return 1;
  if constexpr (F.codebook != Codebook::kNone) return static_cast<std::int8_t>(area[row]);
  if constexpr (!F.halves) return area[row];
  const std::uint8_t byte = area[2 * row + half];
  return F.min ? byte & 15 : static_cast<std::int8_t>(byte);
}

template <PackedFormat F>
inline int minimum_of(const std::uint8_t* area, int row, int half) {
  return F.halves ? area[2 * row + half] >> 4 : area[kPanelRows + row];
}

// For each of Rows activation rows: dots = sum of scale * (stored - offset) * q over the block, and
// for K types with a minimum, mins = sum of minimum * q. Exact.
template <PackedFormat F, int Rows>
inline void block_dots(const std::uint8_t* block, const std::int8_t* const (&q)[Rows],
                       const std::int16_t (*const (&sums)[Rows])[2], std::int64_t index,
                       Ints (&dots)[Rows], Ints (&mins)[Rows]) {
  const std::uint8_t* planes = block + (F.super ? kScaleAreaBytes : 0);
  for (int m = 0; m < Rows; ++m)
    for (int row = 0; row < 16; ++row) {
      int total = 0, minimum = 0;
      for (int half = 0; half < 2; ++half) {
        int dot = 0;
        for (int i = 16 * half; i < 16 * half + 16; ++i)
          dot += q[m][index * kBlock + i] *
                 (stored_weight<F>(planes, i / 4, 4 * row + i % 4) - F.offset);
        total += scale_of<F>(block, row, half) * dot;
        if constexpr (F.super && F.min)
          minimum += minimum_of<F>(block, row, half) * sums[m][index][half];
      }
      dots[m].v[row] = total;
      mins[m].v[row] = minimum;
    }
}

// The factor is made opaque so that no product is the same as the one before.
inline constexpr int kInt8OpsPerRound = 2 * 8;
inline std::int32_t burn_int8_lanes(std::int64_t rounds) {
  std::int32_t sums[8] = {}, factor = 3;
  for (std::int64_t r = 0; r < rounds; ++r)
    for (std::int32_t& sum : sums) {
      asm("" : "+r"(factor));
      sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) +
                                      static_cast<std::uint32_t>(factor * 5));
    }
  std::uint32_t total = 0;
  for (const std::int32_t sum : sums) total += static_cast<std::uint32_t>(sum);
  return static_cast<std::int32_t>(total);
}

}  // namespace
}  // namespace quire::cpu
