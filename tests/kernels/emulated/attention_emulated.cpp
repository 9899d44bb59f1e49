// The AVX-512 attention kernels on SIMDe's emulation.
#include "tests/kernels/emulated/avx512_emulation.h"
// The emulation comes first.
#include "kernels/cpu/attention_avx512.cpp"
