// The AVX-512 kernels, compiled once more on SIMDe's emulation, so that they are tested on CPUs
// that lack AVX-512.
#include "tests/kernels/emulated/avx512_on_simde.h"

#define avx512_kernels emulated_avx512_kernels
#define kAvx512Attention kEmulatedAvx512Attention
#include "kernels/cpu/kernels_avx512.cpp"
