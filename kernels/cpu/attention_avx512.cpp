#include "kernels/cpu/lanes_avx512.h"
// The order matters: the templates use the lanes.
#include "kernels/cpu/attention_kernels.h"

namespace quire::cpu {

const AttentionKernels kAvx512Attention = attention_of_lanes();

}  // namespace quire::cpu
