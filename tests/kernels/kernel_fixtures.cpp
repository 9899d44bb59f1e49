#include "tests/kernels/kernel_fixtures.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/detect.h"

namespace quire::cpu {
const KernelTable& emulated_avx512_kernels();
const KernelTable& emulated_amx_kernels();
}  // namespace quire::cpu

namespace quire::test {
namespace {

void store_half(std::uint8_t* target, float value) {
  const std::uint16_t bits = float_to_half(value);
  std::memcpy(target, &bits, 2);
}

// Where a block keeps its halfs: the scale, then the minimum or -1.
std::pair<int, int> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108, -1};
    case DType::kQ6_K:
      return {208, -1};
    default:
      return {0, -1};
  }
}

void store_plain(DType dtype, std::uint8_t* target, float value) {
  if (dtype == DType::kF32) std::memcpy(target, &value, 4);
  if (dtype == DType::kF16) store_half(target, value);
  if (dtype == DType::kBF16) {
    const std::uint16_t bits = float_to_bf16(value);
    std::memcpy(target, &bits, 2);
  }
}

}  // namespace

std::vector<float> Random::normals(std::size_t count, float deviation) {
  std::vector<float> values(count);
  for (float& value : values) value = normal() * deviation;
  return values;
}

StoredMatrix::StoredMatrix(DType type, std::int64_t num_rows, std::int64_t num_cols, Random& random)
    : dtype(type), rows(num_rows), cols(num_cols), bytes(row_bytes(type, num_cols) * num_rows) {
  const DTypeInfo& info = dtype_info(type);
  const bool plain = info.block_elements == 1;
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  const auto [scale, minimum] = half_offsets(type);
  for (std::size_t at = 0; at < bytes.size(); at += info.block_bytes) {
    if (plain) {
      store_plain(type, bytes.data() + at, random.normal() * 0.05f);
      continue;
    }
    if (type == DType::kMXFP4) {
      bytes[at] = static_cast<std::uint8_t>(118 + random.below(5));
      continue;
    }
    store_half(bytes.data() + at + scale, 0.002f + 0.01f * static_cast<float>(random.below(8)));
    if (minimum >= 0) store_half(bytes.data() + at + minimum, random.normal() * 0.02f);
  }
}

std::vector<float> StoredMatrix::decoded() const {
  std::vector<float> values(rows * cols);
  dequantize(dtype, bytes.data(), values.data(), rows * cols);
  return values;
}

std::vector<DType> all_dtypes() {
  std::vector<DType> types;
  for (int i = 0; i < kNumDTypes; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

std::vector<const cpu::KernelTable*> simd_tables() {
  std::vector<const cpu::KernelTable*> tables;
  if (cpu::detect() >= cpu::Isa::kAvx2) tables.push_back(&cpu::avx2_kernels());
  if (cpu::detect() >= cpu::Isa::kAvx512) tables.push_back(&cpu::avx512_kernels());
  if (cpu::detect() >= cpu::Isa::kAmx) tables.push_back(&cpu::amx_kernels());
#ifdef QUIRE_EMULATED_AVX512
  if (cpu::detect() >= cpu::Isa::kAvx2) {
    tables.push_back(&cpu::emulated_avx512_kernels());
    tables.push_back(&cpu::emulated_amx_kernels());
  }
#endif
  return tables;
}

Step::Step(const std::vector<Piece>& pieces, const std::vector<std::vector<int>>& blocks,
           int block_size, int padding) {
  for (const auto& list : blocks)
    max_blocks_ = std::max(max_blocks_, static_cast<int>(list.size()));
  for (const Piece& piece : pieces) {
    const std::vector<int>& table = blocks[piece.request];
    for (int i = 0; i < piece.num_tokens; ++i) {
      const int position = piece.num_computed + i;
      positions_.push_back(position);
      slots_.push_back(std::int64_t{table[position / block_size]} * block_size +
                       position % block_size);
    }
    query_start_loc_.push_back(num_tokens());
    seq_lens_.push_back(piece.num_computed + piece.num_tokens);
    const std::size_t start = block_table_.size();
    block_table_.resize(start + max_blocks_);
    std::copy(table.begin(), table.end(), block_table_.begin() + start);
  }
  for (int i = 0; i < padding; ++i) {
    positions_.push_back(0);
    slots_.push_back(-1);
    query_start_loc_.push_back(num_tokens());
    seq_lens_.push_back(0);
    block_table_.resize(block_table_.size() + max_blocks_);
  }
  input_ids.resize(positions_.size());
  std::iota(input_ids.begin(), input_ids.end(), 0);
}

BatchView Step::view() const {
  BatchView view;
  view.num_tokens = num_tokens();
  view.num_reqs = static_cast<int>(seq_lens_.size());
  view.input_ids = input_ids.data();
  view.positions = positions_.data();
  view.slot_mapping = slots_.data();
  view.query_start_loc = query_start_loc_.data();
  view.seq_lens = seq_lens_.data();
  view.block_table = block_table_.data();
  view.max_blocks = max_blocks_;
  return view;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Step flat_step(int rows) {
  std::vector<Piece> pieces;
  std::vector<std::vector<int>> blocks;
  for (int i = 0; i < rows; ++i) {
    pieces.push_back({i, 0, 1});
    blocks.push_back({i});
  }
  return Step(pieces, blocks, 16);
}

std::unique_ptr<Backend> make_cpu(const BackendOptions& options) {
  std::string error;
  return make_cpu_backend(options, error);
}

std::vector<CpuConfig> cpu_configs() {
  std::vector<CpuConfig> configs;
  for (const char* isa : {"scalar", "avx2", "avx512", "amx"}) {
    CpuConfig config{isa, {}};
    config.options.isa = isa;
    config.options.num_threads = 2;
    if (make_cpu(config.options)) configs.push_back(config);
  }
  return configs;
}

void set_rows(Backend& backend, Step& step, Buffer& buffer, const std::vector<float>& rows) {
  const MatrixView view{DType::kF32, static_cast<std::int64_t>(rows.size()) / buffer.width(),
                        buffer.width(), rows.data()};
  const auto table = backend.pack({&view, 1});
  backend.begin_step(step.view());
  backend.embed(*table, 1.0f, buffer);
}

}  // namespace quire::test
