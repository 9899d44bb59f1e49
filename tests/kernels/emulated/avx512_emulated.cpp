// The AVX-512 kernels, compiled once more on SIMDe's emulation, so that they are tested on CPUs
// that lack AVX-512.
#include "tests/kernels/emulated/avx512_emulation.h"
// The emulation comes first.
#include "kernels/cpu/kernels_avx512.cpp"
