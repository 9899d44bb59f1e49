#pragma once

#include "kernels/cpu/tiles.h"

// The AMX instructions. Not the compiler's intrinsics: g++ 12 tells the optimiser of only eight
// bytes of _tile_loadconfig's operand and of none of _tile_loadd's, and drops what is stored there.
namespace quire::cpu {
namespace {

inline void tile_configure(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}
inline void tile_release() {
  asm volatile("tilerelease" : : : "memory");
}
template <int T>
inline void tile_load(const void* base, std::ptrdiff_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(T) : "memory");
}
template <int T>
inline void tile_store(void* base, std::ptrdiff_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(T) : "memory");
}
template <int T>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(T));
}
template <int C, int A, int B>
inline void tile_dot() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

template <int C, int A, int B>
inline void tile_dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}

}  // namespace
}  // namespace quire::cpu
