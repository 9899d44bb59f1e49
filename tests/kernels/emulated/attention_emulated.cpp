// The AVX-512 attention kernels on SIMDe's emulation.
#include "tests/kernels/emulated/avx512_on_simde.h"

#define kAvx512Attention kEmulatedAvx512Attention
#include "kernels/cpu/attention_avx512.cpp"
