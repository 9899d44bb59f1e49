#pragma once

// Fills a KernelTable from the templates. Include after a lanes_*.h.
#include "kernels/cpu/row_kernels.h"

#include "kernels/cpu/panel_kernels.h"

namespace quire::cpu {
namespace {

constexpr KernelTable table_of_lanes(const char* name, const AttentionKernels& attention) {
  KernelTable table{};
  table.name = name;
  table.attention = &attention;
  table.panel[static_cast<int>(DType::kF32)] = WidePanel<PlainTiles<PlainF32>>::run;
  table.panel[static_cast<int>(DType::kF16)] = WidePanel<PlainTiles<PlainF16>>::run;
  table.panel[static_cast<int>(DType::kBF16)] = WidePanel<Bf16Tiles>::run;
  table.panel[static_cast<int>(DType::kQ4_0)] = QuantisedPanel<kPackedQ4_0>::run;
  table.panel[static_cast<int>(DType::kQ4_1)] = QuantisedPanel<kPackedQ4_1>::run;
  table.panel[static_cast<int>(DType::kQ5_0)] = QuantisedPanel<kPackedQ5_0>::run;
  table.panel[static_cast<int>(DType::kQ5_1)] = QuantisedPanel<kPackedQ5_1>::run;
  table.panel[static_cast<int>(DType::kQ8_0)] = QuantisedPanel<kPackedQ8_0>::run;
  table.panel[static_cast<int>(DType::kQ2_K)] = QuantisedPanel<kPackedQ2_K>::run;
  table.panel[static_cast<int>(DType::kQ3_K)] = QuantisedPanel<kPackedQ3_K>::run;
  table.panel[static_cast<int>(DType::kQ4_K)] = QuantisedPanel<kPackedQ4_K>::run;
  table.panel[static_cast<int>(DType::kQ5_K)] = QuantisedPanel<kPackedQ5_K>::run;
  table.panel[static_cast<int>(DType::kQ6_K)] = QuantisedPanel<kPackedQ6_K>::run;
  table.panel[static_cast<int>(DType::kIQ4_NL)] = QuantisedPanel<kPackedIQ4_NL>::run;
  table.panel[static_cast<int>(DType::kIQ4_XS)] = QuantisedPanel<kPackedIQ4_XS>::run;
  table.panel[static_cast<int>(DType::kMXFP4)] = QuantisedPanel<kPackedMXFP4>::run;
  table.quantise_row = quantise_row;
  table.round_row = round_row;
  table.rms_norm = rms_norm_row;
  table.silu_mul = silu_mul_row;
  table.gelu_mul = gelu_mul_row;
  table.exp = exp_row;
  table.flops_per_round = 2 * 16 * kRowsAtOnce;
  table.burn_fma = burn_fma_lanes;
  table.int8_ops_per_round = kInt8OpsPerRound;
  table.burn_int8 = burn_int8_lanes;
  table.read_sum = read_sum_row;
  return table;
}

}  // namespace
}  // namespace quire::cpu
