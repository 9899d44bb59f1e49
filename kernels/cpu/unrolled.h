#pragma once

#include <utility>

// For sources compiled for one instruction set: in an unnamed namespace, as their lanes are.
namespace quire::cpu {
namespace {

#define QUIRE_INLINE inline __attribute__((always_inline))

// Calls f(integral_constant<int, 0>) .. f(integral_constant<int, N - 1>).
template <int N, typename F>
QUIRE_INLINE void unrolled(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

}  // namespace
}  // namespace quire::cpu
