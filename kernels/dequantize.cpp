#include <array>
#include <cstring>

#include "kernels/check.h"
#include "kernels/dtype.h"

// Block layouts and the order of operations follow gguf.quants of the Python gguf package, so that
// results agree bit for bit. Each decode_* turns one block into floats.
namespace quire {
namespace {

using Bytes = const std::uint8_t*;

constexpr int kSmallBlock = 32;
constexpr int kSuperBlock = 256;

std::uint16_t load_u16(Bytes source) {
  std::uint16_t bits;
  std::memcpy(&bits, source, sizeof(bits));
  return bits;
}

std::uint32_t load_u32(Bytes source) {
  std::uint32_t bits;
  std::memcpy(&bits, source, sizeof(bits));
  return bits;
}

float load_half(Bytes source) {
  return half_to_float(load_u16(source));
}

int low_nibble(std::uint8_t byte) {
  return byte & 0x0f;
}
int high_nibble(std::uint8_t byte) {
  return byte >> 4;
}

void decode_f32(Bytes block, float* out) {
  std::memcpy(out, block, sizeof(float));
}
void decode_f16(Bytes block, float* out) {
  *out = load_half(block);
}
void decode_bf16(Bytes block, float* out) {
  *out = bf16_to_float(load_u16(block));
}

// half d, 16 bytes of nibbles: elements 0-15 low, 16-31 high.
void decode_q4_0(Bytes block, float* out) {
  const float d = load_half(block);
  const Bytes quants = block + 2;
  for (int i = 0; i < kSmallBlock / 2; ++i) {
    out[i] = d * static_cast<float>(low_nibble(quants[i]) - 8);
    out[i + 16] = d * static_cast<float>(high_nibble(quants[i]) - 8);
  }
}

// half d, half m, nibbles.
void decode_q4_1(Bytes block, float* out) {
  const float d = load_half(block);
  const float m = load_half(block + 2);
  const Bytes quants = block + 4;
  for (int i = 0; i < kSmallBlock / 2; ++i) {
    out[i] = d * static_cast<float>(low_nibble(quants[i])) + m;
    out[i + 16] = d * static_cast<float>(high_nibble(quants[i])) + m;
  }
}

// Element i of a 5-bit block: a nibble plus bit i of the 32-bit mask.
int five_bits(Bytes nibbles, std::uint32_t high_bits, int i) {
  const int low = i < 16 ? low_nibble(nibbles[i]) : high_nibble(nibbles[i - 16]);
  return low | static_cast<int>((high_bits >> i) & 1u) << 4;
}

// half d, 4 bytes of fifth bits, nibbles.
void decode_q5_0(Bytes block, float* out) {
  const float d = load_half(block);
  const std::uint32_t high_bits = load_u32(block + 2);
  for (int i = 0; i < kSmallBlock; ++i)
    out[i] = d * static_cast<float>(five_bits(block + 6, high_bits, i) - 16);
}

// half d, half m, 4 bytes of fifth bits, nibbles.
void decode_q5_1(Bytes block, float* out) {
  const float d = load_half(block);
  const float m = load_half(block + 2);
  const std::uint32_t high_bits = load_u32(block + 4);
  for (int i = 0; i < kSmallBlock; ++i)
    out[i] = d * static_cast<float>(five_bits(block + 8, high_bits, i)) + m;
}

// half d, 32 signed bytes.
void decode_q8_0(Bytes block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < kSmallBlock; ++i)
    out[i] = static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * d;
}

// 16 scale bytes (low nibble scale, high nibble minimum), 64 bytes of 2-bit quants, half d, half
// dmin. Each half of the block takes 32 bytes of quants: two bits of a byte are element j of one of
// four runs of 32.
void decode_q2_k(Bytes block, float* out) {
  const Bytes scales = block;
  const Bytes quants = block + 16;
  const float d = load_half(block + 80);
  const float dmin = load_half(block + 82);
  for (int i = 0; i < kSuperBlock; ++i) {
    const std::uint8_t scale = scales[i / 16];
    const int shift = 2 * (i % 128 / 32);
    const int q = (quants[i / 128 * 32 + i % 32] >> shift) & 3;
    const float dl = d * static_cast<float>(low_nibble(scale));
    const float ml = dmin * static_cast<float>(high_nibble(scale));
    out[i] = dl * static_cast<float>(q) - ml;
  }
}

// Sixteen 6-bit scales in 12 bytes: the low four bits in bytes 0-7 (0-7 low nibbles, 8-15 high
// nibbles), the high two in bytes 8-11.
int q3_k_scale(Bytes scales, int index) {
  const std::uint8_t low_byte = scales[index % 8];
  const int low = index < 8 ? low_nibble(low_byte) : high_nibble(low_byte);
  const int high = (scales[8 + index % 4] >> (2 * (index / 4))) & 3;
  return (low | high << 4) - 32;
}

// 32 bytes of third bits, 64 bytes of 2-bit quants, 12 scale bytes, half d. A clear third bit
// subtracts four.
void decode_q3_k(Bytes block, float* out) {
  const Bytes high_bits = block;
  const Bytes quants = block + 32;
  const Bytes scales = block + 96;
  const float d = load_half(block + 108);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int shift = 2 * (i % 128 / 32);
    const int low = (quants[i / 128 * 32 + i % 32] >> shift) & 3;
    const int high = (high_bits[i % 32] >> (i / 32)) & 1;
    const float dl = d * static_cast<float>(q3_k_scale(scales, i / 16));
    out[i] = dl * static_cast<float>(high != 0 ? low : low - 4);
  }
}

struct ScaleMin {
  int scale, min;
};

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes: the first four of each in the low six
// bits of bytes 0-3 and 4-7; of the last four, the low bits in the nibbles of bytes 8-11 and the
// top two bits above the first four.
ScaleMin k_scale_min(Bytes scales, int index) {
  if (index < 4) return {scales[index] & 0x3f, scales[index + 4] & 0x3f};
  const std::uint8_t low = scales[index + 4];
  return {low_nibble(low) | (scales[index - 4] >> 6) << 4, high_nibble(low) | (scales[index] >> 6)
                                                                                  << 4};
}

// half d, half dmin, 12 scale bytes, 128 bytes of nibbles: each 32 bytes hold two runs of 32.
void decode_q4_k(Bytes block, float* out) {
  const float d = load_half(block);
  const float dmin = load_half(block + 2);
  const Bytes quants = block + 16;
  for (int run = 0; run < 8; ++run) {
    const ScaleMin pair = k_scale_min(block + 4, run);
    const float dl = d * static_cast<float>(pair.scale);
    const float ml = dmin * static_cast<float>(pair.min);
    for (int i = 0; i < 32; ++i) {
      const std::uint8_t byte = quants[run / 2 * 32 + i];
      const int q = run % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
      out[run * 32 + i] = dl * static_cast<float>(q) - ml;
    }
  }
}

// As Q4_K with 32 bytes of fifth bits between scales and nibbles: bit `run` of byte i.
void decode_q5_k(Bytes block, float* out) {
  const float d = load_half(block);
  const float dmin = load_half(block + 2);
  const Bytes high_bits = block + 16;
  const Bytes quants = block + 48;
  for (int run = 0; run < 8; ++run) {
    const ScaleMin pair = k_scale_min(block + 4, run);
    const float dl = d * static_cast<float>(pair.scale);
    const float ml = dmin * static_cast<float>(pair.min);
    for (int i = 0; i < 32; ++i) {
      const std::uint8_t byte = quants[run / 2 * 32 + i];
      const int low = run % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
      const int q = low | ((high_bits[i] >> run) & 1) << 4;
      out[run * 32 + i] = dl * static_cast<float>(q) - ml;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scale bytes, half d. Each half of
// the block takes 64 nibble bytes (low nibbles: first 64 elements, high: the next) and 32 pair
// bytes.
void decode_q6_k(Bytes block, float* out) {
  const Bytes nibbles = block;
  const Bytes pairs = block + 128;
  const Bytes scales = block + 192;
  const float d = load_half(block + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / 128;
    const std::uint8_t byte = nibbles[half * 64 + i % 64];
    const int low = i % 128 < 64 ? low_nibble(byte) : high_nibble(byte);
    const int high = (pairs[half * 32 + i % 32] >> (2 * (i % 128 / 32))) & 3;
    const float dl = d * static_cast<float>(static_cast<std::int8_t>(scales[i / 16]));
    out[i] = dl * static_cast<float>((low | high << 4) - 32);
  }
}

// half d, 16 bytes of nibbles that pick a value each.
void decode_iq4_nl(Bytes block, float* out) {
  const float d = load_half(block);
  const Bytes quants = block + 2;
  for (int i = 0; i < kSmallBlock / 2; ++i) {
    out[i] = d * static_cast<float>(kIq4Values[low_nibble(quants[i])]);
    out[i + 16] = d * static_cast<float>(kIq4Values[high_nibble(quants[i])]);
  }
}

// Scale of run `run`: its low four bits in a nibble of bytes 4-7, its high two in bytes 2-3.
int iq4_xs_scale(Bytes block, int run) {
  const std::uint8_t byte = block[4 + run / 2];
  const int low = run % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
  return (low | ((load_u16(block + 2) >> (2 * run)) & 3) << 4) - 32;
}

// half d, two bytes of high scale bits, four of low ones, then 128 bytes of nibbles: each 16 hold a
// run of 32 as IQ4_NL does.
void decode_iq4_xs(Bytes block, float* out) {
  const float d = load_half(block);
  for (int run = 0; run < 8; ++run) {
    const float dl = d * static_cast<float>(iq4_xs_scale(block, run));
    const Bytes quants = block + 8 + 16 * run;
    for (int i = 0; i < 16; ++i) {
      out[32 * run + i] = dl * static_cast<float>(kIq4Values[low_nibble(quants[i])]);
      out[32 * run + i + 16] = dl * static_cast<float>(kIq4Values[high_nibble(quants[i])]);
    }
  }
}

// One exponent byte, 16 bytes of nibbles.
void decode_mxfp4(Bytes block, float* out) {
  const float d = mxfp4_scale(block[0]);
  const Bytes quants = block + 1;
  for (int i = 0; i < kSmallBlock / 2; ++i) {
    out[i] = d * static_cast<float>(kMxfp4Values[low_nibble(quants[i])]);
    out[i + 16] = d * static_cast<float>(kMxfp4Values[high_nibble(quants[i])]);
  }
}

template <void (*decode)(Bytes, float*)>
void decode_blocks(Bytes source, float* target, std::int64_t blocks, const DTypeInfo& info) {
  for (std::int64_t i = 0; i < blocks; ++i)
    decode(source + i * info.block_bytes, target + i * info.block_elements);
}

using DecodeBlocks = void (*)(Bytes, float*, std::int64_t, const DTypeInfo&);

// In the order of DType.
constexpr std::array<DecodeBlocks, kNumDTypes> kDecoders{
    decode_blocks<decode_f32>,   decode_blocks<decode_f16>,    decode_blocks<decode_bf16>,
    decode_blocks<decode_q4_0>,  decode_blocks<decode_q4_1>,   decode_blocks<decode_q5_0>,
    decode_blocks<decode_q5_1>,  decode_blocks<decode_q8_0>,   decode_blocks<decode_q2_k>,
    decode_blocks<decode_q3_k>,  decode_blocks<decode_q4_k>,   decode_blocks<decode_q5_k>,
    decode_blocks<decode_q6_k>,  decode_blocks<decode_iq4_nl>, decode_blocks<decode_iq4_xs>,
    decode_blocks<decode_mxfp4>,
};

}  // namespace

void dequantize(DType dtype, const void* source, float* target, std::int64_t count) {
  const DTypeInfo& info = dtype_info(dtype);
  QUIRE_CHECK(count >= 0 && count % info.block_elements == 0, count, info.name);
  kDecoders[static_cast<std::size_t>(dtype)](static_cast<Bytes>(source), target,
                                             count / info.block_elements, info);
}

}  // namespace quire
