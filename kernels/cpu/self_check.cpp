#include "kernels/cpu/self_check.h"

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/format.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/prepared_rows.h"
#include "kernels/cpu/span_scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::cpu {
namespace {

// More than one chunk of blocks, one whole tile of rows, one that is not, and rows beside it.
constexpr std::int64_t kCols = 5 * 256;
constexpr int kRowCounts[] = {29, 18};
constexpr int kMostRows = 29;

// What no weight is: infinite, not a number, so small that it counts as zero.
std::uint16_t random_half(std::mt19937& random) {
  return static_cast<std::uint16_t>(0x2000 + (random() & 0x8fff));
}
std::uint16_t random_bf16(std::mt19937& random) {
  return static_cast<std::uint16_t>(0x3800 + (random() & 0x87ff));
}

// Random packed bytes are a valid panel of any quantised type once the halves in it are finite.
std::vector<std::uint8_t> random_panel(DType dtype, std::mt19937& random) {
  std::vector<std::uint8_t> panel(panel_bytes(dtype, kCols));
  const bool bf16 = dtype == DType::kBF16;
  const PackedFormat format = bf16 ? PackedFormat{} : packed_format(dtype);
  const std::size_t stride = bf16 ? 2 : format.super_bytes(),
                    header = bf16 ? 2 : format.header_bytes();
  for (std::uint8_t& byte : panel) byte = static_cast<std::uint8_t>(random());
  for (std::size_t at = 0; at < panel.size(); at += stride)
    for (std::size_t i = 0; i < header; i += 2) {
      const std::uint16_t bits = bf16 ? random_bf16(random) : random_half(random);
      std::memcpy(panel.data() + at + i, &bits, 2);
    }
  return panel;
}

void fill(PreparedRows& rows, std::mt19937& random) {
  rows.reserve(kMostRows, kCols, {.rounded = true, .bf16 = true, .quantised = true});
  std::vector<float> values(kCols);
  for (int row = 0; row < kMostRows; ++row) {
    for (float& value : values)
      value = static_cast<float>(static_cast<int>(random() % 4001) - 2000);
    rows.prepare(scalar_kernels(), values.data(), row);
  }
}

bool multiplies_alike(const KernelTable& table, std::mt19937& random) {
  PreparedRows x;
  fill(x, random);
  bool same = true;
  for (int type = 0; type < kNumDTypes; ++type) {
    const auto dtype = static_cast<DType>(type);
    if (!is_quantised(dtype) && dtype != DType::kBF16) continue;
    const std::vector<std::uint8_t> bytes = random_panel(dtype, random);
    const std::uint8_t* panel = bytes.data();
    float expected[kMostRows * kPanelRows], found[kMostRows * kPanelRows];
    scalar_kernels().panel[type](&panel, 1, x.view(), expected);
    for (const int rows : kRowCounts) {
      table.panel[type](&panel, 1, rows_of(x.view(), 0, rows), found);
      same = same && std::memcmp(expected, found, rows * kPanelRows * sizeof(float)) == 0;
    }
  }
  return same;
}

// One span of BF16 keys and values, and causal queries over its end.
class Attended {
 public:
  explicit Attended(std::mt19937& random) : keys_(kValues), values_(kValues) {
    for (std::uint16_t& key : keys_) key = random_bf16(random);
    for (std::uint16_t& value : values_) value = random_bf16(random);
    for (int i = 0; i < kPadded; ++i)
      q_.push_back(static_cast<float>(static_cast<int>(random() % 401) - 200) / 4096.0f);
    for (int query = 0; query < kQueries; ++query) end_.push_back(kSpan - kQueries + 1 + query);
  }

  // Outputs, largest scores and totals.
  std::vector<float> by(const AttentionKernels& kernels) const {
    std::vector<float> q = q_;
    SpanScratch scratch(kRows, kDim);
    std::vector<std::uint16_t> q_bf16(kPadded);
    kernels.round_queries(q.data(), kPadded, q_bf16.data());
    SpanArgs args;
    args.head_dim = args.padded_dim = kDim;
    args.group = kGroup;
    args.queries = kQueries;
    args.q = q.data();
    args.q_bf16 = q_bf16.data();
    for (int tile = 0; tile < kSpan / 16; ++tile) {
      args.tiles[tile].keys = reinterpret_cast<const std::uint8_t*>(&keys_[tile * 16 * kDim]);
      args.tiles[tile].values = reinterpret_cast<const std::uint8_t*>(&values_[tile * 16 * kDim]);
      args.next_keys[tile] = args.tiles[tile].keys;
    }
    args.begin = begin_;
    args.end = end_.data();
    scratch.lend(args);
    kernels.attend_span[static_cast<int>(KvDType::kBF16)](args);
    std::vector<float> results(scratch.out.begin(), scratch.out.begin() + kRows * kDim);
    results.insert(results.end(), scratch.largest.begin(), scratch.largest.end());
    results.insert(results.end(), scratch.total.begin(), scratch.total.end());
    return results;
  }

 private:
  static constexpr int kDim = 64, kGroup = 3, kQueries = 7, kRows = kGroup * kQueries;
  static constexpr int kValues = kSpan * kDim, kPadded = (kRows + kSpareRows) * kDim;
  std::vector<std::uint16_t> keys_, values_;
  std::vector<float> q_;
  std::vector<int> end_;
  int begin_[kQueries] = {};
};

bool attends_alike(const KernelTable& table, std::mt19937& random) {
  const Attended span(random);
  const std::vector<float> expected = span.by(*scalar_kernels().attention);
  const std::vector<float> found = span.by(*table.attention);
  return std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)) == 0;
}

}  // namespace

bool gives_the_scalar_bits(const KernelTable& table) {
  const FlushDenormals flush;
  std::mt19937 random(1);
  const bool same = multiplies_alike(table, random) && attends_alike(table, random);
  if (table.end_job) table.end_job();
  return same;
}

}  // namespace quire::cpu
