#include "kernels/cpu/lanes_scalar.h"
// The order matters: the templates use the lanes.
#include "kernels/cpu/kernel_table_of_lanes.h"

namespace quire::cpu {

const KernelTable& scalar_kernels() {
  static constexpr KernelTable kTable = table_of_lanes("scalar", kScalarAttention);
  return kTable;
}

}  // namespace quire::cpu
