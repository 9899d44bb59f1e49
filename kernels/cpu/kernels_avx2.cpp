#include "kernels/cpu/lanes_avx2.h"
// The order matters: the templates use the lanes.
#include "kernels/cpu/kernel_table_of_lanes.h"

namespace quire::cpu {

const KernelTable& avx2_kernels() {
  static constexpr KernelTable kTable = table_of_lanes("avx2", kAvx2Attention);
  return kTable;
}

}  // namespace quire::cpu
