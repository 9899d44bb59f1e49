#include "kernels/cpu/self_check.h"

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::cpu {
namespace {

// More than one chunk of blocks, one whole tile of rows, one that is not, and rows beside it.
constexpr std::int64_t kCols = 5 * 256;
constexpr int kRowCounts[] = {29, 18};
constexpr int kMostRows = 29;

// Random packed bytes are a valid panel of any type once the halves in it are finite.
std::vector<std::uint8_t> random_panel(DType dtype, std::mt19937& random) {
  const PackedFormat format = packed_format(dtype);
  std::vector<std::uint8_t> panel(panel_bytes(dtype, kCols));
  for (std::uint8_t& byte : panel) byte = static_cast<std::uint8_t>(random());
  for (std::size_t at = 0; at < panel.size(); at += format.super_bytes())
    for (int i = 0; i < format.header_bytes(); i += 2) {
      const auto bits = static_cast<std::uint16_t>(0x2000 + (random() & 0x8fff));
      std::memcpy(panel.data() + at + i, &bits, 2);
    }
  return panel;
}

struct Rows {
  std::vector<float> scale, scaled_sum;
  std::vector<std::int8_t> q;
  std::vector<std::int16_t> sums;

  explicit Rows(std::mt19937& random) {
    constexpr std::size_t kValues = (kMostRows + kReadableRows) * kCols;
    std::vector<float> x(kValues);
    for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 4001) - 2000);
    q.resize(kValues);
    scale.resize(kValues / kBlock);
    scaled_sum.resize(kValues / kBlock);
    sums.resize(2 * (kValues / kBlock));
    scalar_kernels().quantise_row(x.data(), static_cast<std::int64_t>(kValues),
                                  {q.data(), scale.data(), scaled_sum.data(),
                                   reinterpret_cast<std::int16_t(*)[2]>(sums.data())});
  }
  ActivationRows view(int rows) const {
    return {rows,
            kCols,
            q.data(),
            scale.data(),
            scaled_sum.data(),
            reinterpret_cast<const std::int16_t(*)[2]>(sums.data()),
            nullptr};
  }
};

}  // namespace

bool gives_the_scalar_bits(const KernelTable& table) {
  const FlushDenormals flush;
  std::mt19937 random(1);
  const Rows x(random);
  bool same = true;
  for (int type = 0; type < kNumDTypes; ++type) {
    if (!is_quantised(static_cast<DType>(type))) continue;
    const std::vector<std::uint8_t> panel = random_panel(static_cast<DType>(type), random);
    float expected[kMostRows * kPanelRows], found[kMostRows * kPanelRows];
    scalar_kernels().panel[type](panel.data(), x.view(kMostRows), expected);
    for (const int rows : kRowCounts) {
      table.panel[type](panel.data(), x.view(rows), found);
      same = same && std::memcmp(expected, found, rows * kPanelRows * sizeof(float)) == 0;
    }
  }
  if (table.end_job) table.end_job();
  return same;
}

}  // namespace quire::cpu
