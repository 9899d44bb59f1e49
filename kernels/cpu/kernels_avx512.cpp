#include "kernels/cpu/lanes_avx512.h"
// The order matters: the templates use the lanes.
#include "kernels/cpu/kernel_table_of_lanes.h"

namespace quire::cpu {

const KernelTable& avx512_kernels() {
  static constexpr KernelTable kTable = table_of_lanes("avx512", kAvx512Attention);
  return kTable;
}

}  // namespace quire::cpu
