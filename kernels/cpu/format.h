#pragma once

#include <cstdint>

#include "kernels/dtype.h"

// How weights lie in memory once packed. A panel is 16 output rows.
//
// F32 and F16: input by input, [cols][16]. BF16: pairs of inputs, [bf16_cols(cols) / 2][16][2] with
// zeros after the last input, so that 32 inputs are a tile of AMX as they lie there.
//
// Quantised types: per block of 32 inputs the 512 stored weights form 8 groups of 64 bytes, group g
// holding inputs 4g .. 4g+3 of every row: byte 4 * row + k. Each group is one AVX-512 register (or
// two AVX2 ones) whose 32-bit lanes are output rows, so a dot product of four inputs per row is one
// instruction and no lane is ever summed with another.
//
// A stored weight narrower than a byte is spread over planes of 64-byte vectors:
//   nibble plane   vector g % 4, shifted by 4 * (g / 4)     types of 4, 5 and 6 bits (low bits)
//   pair plane     vector g % 2, shifted by 2 * (g / 2)     2 and 3 bits (low), 6 bits (high)
//   bit plane      vector 0, shifted by g                   3 and 5 bits (high)
// The low plane comes first.
//
// IQ4_NL, IQ4_XS and MXFP4 keep their four bits; the kernels look the values up.
//
// Simple types: a block is [d: half x 16] [m: half x 16 when kMin] [planes].
// K types: a superblock of 256 inputs is [d: half x 16] [dmin: half x 16 when kMin], then 8 blocks
// of [32 bytes of scales] [planes]. The scales are, per row,
//   one scale a block:      16 scale bytes, then 16 minimum bytes
//   two scales a block:     a pair for inputs 0-15 and 16-31; with minimum: scale | minimum << 4
namespace quire::cpu {

inline constexpr int kPanelRows = 16;
inline constexpr int kBlock = 32;           // inputs sharing one activation scale
inline constexpr int kBf16Step = 32;        // inputs BF16 kernels add up before adding to an output
inline constexpr int kGroups = 8;           // of 4 inputs, in a block
inline constexpr int kGroupBytes = 64;      // 16 rows x 4 inputs
inline constexpr int kScaleAreaBytes = 32;  // of a K type's block

// What a stored weight of four bits stands for when not for itself: a place in a table.
enum class Codebook : std::uint8_t { kNone, kIq4, kMxfp4 };

constexpr const std::int8_t* codebook_values(Codebook codebook) {
  return codebook == Codebook::kIq4 ? kIq4Values : kMxfp4Values;
}

// weight = d * scale * (stored - offset) - dmin * minimum (K types), or d * (stored - offset) + m.
struct PackedFormat {
  int bits;     // of a stored weight; 8 means a signed byte
  int offset;   // subtracted from the stored value
  bool super;   // K type: integer scales under a half per 256 inputs
  bool halves;  // K type: one scale for 16 inputs, not 32
  bool min;     // weights have a minimum term
  Codebook codebook = Codebook::kNone;
  bool bfloat = false;  // d is a bfloat16, not a half

  constexpr int blocks_per_super() const { return super ? 8 : 1; }
  constexpr int header_bytes() const { return min ? 64 : 32; }
  constexpr int plane_bytes() const { return bits * kGroupBytes; }
  constexpr int block_bytes() const { return plane_bytes() + (super ? kScaleAreaBytes : 0); }
  constexpr int super_bytes() const { return header_bytes() + blocks_per_super() * block_bytes(); }
};

inline constexpr PackedFormat kPackedQ4_0{4, 8, false, false, false};
inline constexpr PackedFormat kPackedQ4_1{4, 0, false, false, true};
inline constexpr PackedFormat kPackedQ5_0{5, 16, false, false, false};
inline constexpr PackedFormat kPackedQ5_1{5, 0, false, false, true};
inline constexpr PackedFormat kPackedQ8_0{8, 0, false, false, false};
inline constexpr PackedFormat kPackedQ2_K{2, 0, true, true, true};
inline constexpr PackedFormat kPackedQ3_K{3, 4, true, true, false};
inline constexpr PackedFormat kPackedQ4_K{4, 0, true, false, true};
inline constexpr PackedFormat kPackedQ5_K{5, 0, true, false, true};
inline constexpr PackedFormat kPackedQ6_K{6, 32, true, true, false};

inline constexpr PackedFormat kPackedIQ4_NL{4, 0, false, false, false, Codebook::kIq4};
inline constexpr PackedFormat kPackedIQ4_XS{4, 0, true, false, false, Codebook::kIq4};
inline constexpr PackedFormat kPackedMXFP4{4, 0, false, false, false, Codebook::kMxfp4, true};

inline constexpr bool is_quantised(DType dtype) {
  return dtype >= DType::kQ4_0;
}

// Inputs of a row in BF16: whole steps.
constexpr std::int64_t bf16_cols(std::int64_t cols) {
  return (cols + kBf16Step - 1) / kBf16Step * kBf16Step;
}

// Of a quantised type.
PackedFormat packed_format(DType dtype);
// Bytes of a panel of `cols` inputs.
std::size_t panel_bytes(DType dtype, std::int64_t cols);

}  // namespace quire::cpu
