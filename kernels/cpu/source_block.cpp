#include "kernels/cpu/source_block.h"

#include <cstring>

#include "kernels/check.h"

// The byte layouts are GGUF's, as its Python package decodes them.
namespace quire::cpu {
namespace {

std::uint16_t half_at(const std::uint8_t* bytes) {
  return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8);
}

// 16 bytes: low nibbles are weights 0-15, high ones 16-31.
void split_nibbles(const std::uint8_t* bytes, std::uint8_t* stored) {
  for (int i = 0; i < 16; ++i) {
    stored[i] = bytes[i] & 15;
    stored[i + 16] = bytes[i] >> 4;
  }
}

void add_fifth_bits(const std::uint8_t* bits, std::uint8_t* stored) {
  for (int i = 0; i < 32; ++i) stored[i] |= ((bits[i / 8] >> (i % 8)) & 1) << 4;
}

void read_q4(const std::uint8_t* block, bool has_min, SourceBlock& out) {
  out.d = half_at(block);
  if (has_min) out.min = half_at(block + 2);
  split_nibbles(block + (has_min ? 4 : 2), out.stored);
}

void read_q5(const std::uint8_t* block, bool has_min, SourceBlock& out) {
  out.d = half_at(block);
  if (has_min) out.min = half_at(block + 2);
  const std::uint8_t* bits = block + (has_min ? 4 : 2);
  split_nibbles(bits + 4, out.stored);
  add_fifth_bits(bits, out.stored);
}

void read_q8(const std::uint8_t* block, SourceBlock& out) {
  out.d = half_at(block);
  std::memcpy(out.stored, block + 2, 32);
}

// The two-bit fields of weights 32 * part .. of a superblock, four parts in each 32 bytes.
void read_pairs(const std::uint8_t* bytes, int part, std::uint8_t* stored) {
  const std::uint8_t* source = bytes + 32 * (part / 4);
  for (int i = 0; i < 32; ++i) stored[i] = (source[i] >> (2 * (part % 4))) & 3;
}

void read_q2k(const std::uint8_t* super, int part, SourceBlock& out) {
  read_pairs(super + 16, part, out.stored);
  for (int h = 0; h < 2; ++h) {
    out.scales[h] = static_cast<std::int8_t>(super[2 * part + h] & 15);
    out.mins[h] = static_cast<std::int8_t>(super[2 * part + h] >> 4);
  }
  out.d = half_at(super + 80);
  out.min = half_at(super + 82);
}

void read_q3k(const std::uint8_t* super, int part, SourceBlock& out) {
  read_pairs(super + 32, part, out.stored);
  for (int i = 0; i < 32; ++i) out.stored[i] |= ((super[i] >> part) & 1) << 2;
  const std::uint8_t* scales = super + 96;
  for (int h = 0; h < 2; ++h) {
    const int i = 2 * part + h;
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    const int high = (scales[8 + i % 4] >> (2 * (i / 4))) & 3;
    out.scales[h] = static_cast<std::int8_t>((low | high << 4) - 32);
  }
  out.d = half_at(super + 108);
}

// Six-bit scale and minimum number `part` of the 12 packed bytes of Q4_K and Q5_K.
void read_scale_and_min(const std::uint8_t* bytes, int part, SourceBlock& out) {
  int scale = 0, min = 0;
  if (part < 4) {
    scale = bytes[part] & 63;
    min = bytes[part + 4] & 63;
  } else {
    scale = (bytes[part + 4] & 15) | (bytes[part - 4] >> 6) << 4;
    min = (bytes[part + 4] >> 4) | (bytes[part] >> 6) << 4;
  }
  out.scales[0] = out.scales[1] = static_cast<std::int8_t>(scale);
  out.mins[0] = out.mins[1] = static_cast<std::int8_t>(min);
}

void read_k_nibbles(const std::uint8_t* bytes, int part, std::uint8_t* stored) {
  const std::uint8_t* source = bytes + 32 * (part / 2);
  for (int i = 0; i < 32; ++i) stored[i] = (source[i] >> (4 * (part % 2))) & 15;
}

void read_q4k(const std::uint8_t* super, int part, SourceBlock& out) {
  out.d = half_at(super);
  out.min = half_at(super + 2);
  read_scale_and_min(super + 4, part, out);
  read_k_nibbles(super + 16, part, out.stored);
}

void read_q5k(const std::uint8_t* super, int part, SourceBlock& out) {
  out.d = half_at(super);
  out.min = half_at(super + 2);
  read_scale_and_min(super + 4, part, out);
  read_k_nibbles(super + 48, part, out.stored);
  for (int i = 0; i < 32; ++i) out.stored[i] |= ((super[16 + i] >> part) & 1) << 4;
}

void read_q6k(const std::uint8_t* super, int part, SourceBlock& out) {
  const int half = part / 4, quarter = part % 4;
  const std::uint8_t* low = super + 64 * half + 32 * (quarter % 2);
  const std::uint8_t* high = super + 128 + 32 * half;
  for (int i = 0; i < 32; ++i) {
    const int nibble = (low[i] >> (4 * (quarter / 2))) & 15;
    out.stored[i] = static_cast<std::uint8_t>(nibble | ((high[i] >> (2 * quarter)) & 3) << 4);
  }
  std::memcpy(out.scales, super + 192 + 2 * part, 2);
  out.d = half_at(super + 208);
}

void read_iq4_xs(const std::uint8_t* super, int part, SourceBlock& out) {
  out.d = half_at(super);
  const int low = (super[4 + part / 2] >> (4 * (part % 2))) & 15;
  const int high = (half_at(super + 2) >> (2 * part)) & 3;
  out.scales[0] = out.scales[1] = static_cast<std::int8_t>((low | high << 4) - 32);
  split_nibbles(super + 8 + 16 * part, out.stored);
}

void read_mxfp4(const std::uint8_t* block, SourceBlock& out) {
  out.d = float_to_bf16(mxfp4_scale(block[0]));
  split_nibbles(block + 1, out.stored);
}

}  // namespace

SourceBlock read_source_block(DType dtype, const std::uint8_t* row, std::int64_t index) {
  const DTypeInfo& info = dtype_info(dtype);
  const std::int64_t parts = info.block_elements / 32;
  const std::uint8_t* source = row + index / parts * info.block_bytes;
  const int part = static_cast<int>(index % parts);
  SourceBlock block;
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kQ4_1:
      read_q4(source, dtype == DType::kQ4_1, block);
      break;
    case DType::kQ5_0:
    case DType::kQ5_1:
      read_q5(source, dtype == DType::kQ5_1, block);
      break;
    case DType::kQ8_0:
      read_q8(source, block);
      break;
    case DType::kQ2_K:
      read_q2k(source, part, block);
      break;
    case DType::kQ3_K:
      read_q3k(source, part, block);
      break;
    case DType::kQ4_K:
      read_q4k(source, part, block);
      break;
    case DType::kQ5_K:
      read_q5k(source, part, block);
      break;
    case DType::kQ6_K:
      read_q6k(source, part, block);
      break;
    case DType::kIQ4_NL:
      read_q4(source, false, block);
      break;
    case DType::kIQ4_XS:
      read_iq4_xs(source, part, block);
      break;
    case DType::kMXFP4:
      read_mxfp4(source, block);
      break;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      QUIRE_CHECK(info.block_elements >= 32, info.name);
  }
  return block;
}

}  // namespace quire::cpu
