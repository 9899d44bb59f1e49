// The AMX kernels, compiled once more on emulated AVX-512 and a plain C++ twin of the tiles.
#include "tests/kernels/emulated/avx512_emulation.h"
// The emulations come first.
#include "tests/kernels/emulated/tiles_emulation.h"

#define amx_kernels emulated_amx_kernels
#include "kernels/cpu/kernels_amx.cpp"
