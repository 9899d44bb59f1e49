#pragma once

namespace quire {

// Asks for the line at `address` without waiting for it. g++ 12 takes a function that only
// prefetches for one without effects and drops calls to it; the empty statement is an effect.
inline void prefetch_line(const void* address) {
  __builtin_prefetch(address);
  asm volatile("" : : "r"(address));
}

}  // namespace quire
