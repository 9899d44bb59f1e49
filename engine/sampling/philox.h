#pragma once

#include <array>
#include <cstdint>

namespace quire {

// Philox4x32-10, a counter-based generator: the output is a pure function of counter and key, with
// no state to carry. Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3"
// (SC 2011).
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

// 64 random bits for `draw` number of `stream` under `seed`.
std::uint64_t philox_uint64(std::uint64_t seed, std::uint64_t stream, std::uint64_t draw);
// The same draw as a double in [0, 1).
double philox_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t draw);

}  // namespace quire
