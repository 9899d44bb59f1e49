#include "engine/sampling/philox.h"

namespace quire {
namespace {

constexpr std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint64_t philox_uint64(std::uint64_t seed, std::uint64_t stream, std::uint64_t draw) {
  const auto words =
      philox4x32({low(draw), high(draw), low(stream), high(stream)}, {low(seed), high(seed)});
  return std::uint64_t{words[1]} << 32 | words[0];
}

double philox_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t draw) {
  return static_cast<double>(philox_uint64(seed, stream, draw) >> 11) * 0x1.0p-53;
}

}  // namespace quire
