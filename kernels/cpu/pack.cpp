#include "kernels/cpu/pack.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/source_block.h"

namespace quire::cpu {
namespace {

void or_nibble(std::uint8_t* plane, int group, int lane, int value) {
  plane[kGroupBytes * (group % 4) + lane] |= static_cast<std::uint8_t>(value << (4 * (group / 4)));
}
void or_pair(std::uint8_t* plane, int group, int lane, int value) {
  plane[kGroupBytes * (group % 2) + lane] |= static_cast<std::uint8_t>(value << (2 * (group / 2)));
}
void or_bit(std::uint8_t* plane, int group, int lane, int value) {
  plane[lane] |= static_cast<std::uint8_t>(value << group);
}

void store_weight(int bits, std::uint8_t* planes, int group, int lane, int stored) {
  std::uint8_t* const high = planes + (bits >= 4 ? 4 : 2) * kGroupBytes;
  if (bits == 8) {
    planes[kGroupBytes * group + lane] = static_cast<std::uint8_t>(stored);
  } else if (bits >= 4) {
    or_nibble(planes, group, lane, stored & 15);
    if (bits == 5) or_bit(high, group, lane, stored >> 4);
    if (bits == 6) or_pair(high, group, lane, stored >> 4);
  } else {
    or_pair(planes, group, lane, stored & 3);
    if (bits == 3) or_bit(high, group, lane, stored >> 2);
  }
}

void store_half(std::uint8_t* target, int row, std::uint16_t bits) {
  std::memcpy(target + 2 * row, &bits, 2);
}

void store_scales(const PackedFormat& format, const SourceBlock& block, int row,
                  std::uint8_t* area) {
  if (!format.halves) {
    area[row] = static_cast<std::uint8_t>(block.scales[0]);
    area[kPanelRows + row] = static_cast<std::uint8_t>(block.mins[0]);
    return;
  }
  for (int h = 0; h < 2; ++h)
    area[2 * row + h] = static_cast<std::uint8_t>(block.scales[h] | block.mins[h] << 4);
}

void pack_quantised_row(DType dtype, const std::uint8_t* source, std::int64_t cols, int row,
                        std::uint8_t* panel) {
  const PackedFormat format = packed_format(dtype);
  const std::int64_t per_super = format.blocks_per_super();
  for (std::int64_t b = 0; b < cols / kBlock; ++b) {
    std::uint8_t* super = panel + b / per_super * format.super_bytes();
    std::uint8_t* block = super + format.header_bytes() + b % per_super * format.block_bytes();
    const SourceBlock parts = read_source_block(dtype, source, b);
    store_half(super, row, parts.d);
    if (format.min) store_half(super + 2 * kPanelRows, row, parts.min);
    if (format.super) {
      store_scales(format, parts, row, block);
      block += kScaleAreaBytes;
    }
    for (int i = 0; i < kBlock; ++i)
      store_weight(format.bits, block, i / 4, 4 * row + i % 4, parts.stored[i]);
  }
}

// `group` inputs of an output lie next to each other.
void pack_plain_row(std::size_t element, int group, const std::uint8_t* source, std::int64_t cols,
                    int row, std::uint8_t* panel) {
  for (std::int64_t c = 0; c < cols; ++c) {
    const std::int64_t at = (c / group * kPanelRows + row) * group + c % group;
    std::memcpy(panel + at * element, source + c * element, element);
  }
}

}  // namespace

void pack_panel(const MatrixView& source, std::int64_t panel, std::uint8_t* target) {
  std::memset(target, 0, panel_bytes(source.dtype, source.cols));
  const std::size_t stride = row_bytes(source.dtype, source.cols);
  const std::int64_t first = panel * kPanelRows;
  const int rows = static_cast<int>(std::min<std::int64_t>(kPanelRows, source.rows - first));
  for (int row = 0; row < rows; ++row) {
    const auto* bytes = static_cast<const std::uint8_t*>(source.data) + (first + row) * stride;
    if (is_quantised(source.dtype))
      pack_quantised_row(source.dtype, bytes, source.cols, row, target);
    else
      pack_plain_row(dtype_info(source.dtype).block_bytes, source.dtype == DType::kBF16 ? 2 : 1,
                     bytes, source.cols, row, target);
  }
}

}  // namespace quire::cpu
