#include "kernels/cpu/lanes_scalar.h"
// The order matters: the templates use the lanes.
#include "kernels/cpu/attention_kernels.h"

namespace quire::cpu {

const AttentionKernels kScalarAttention = attention_of_lanes();

}  // namespace quire::cpu
