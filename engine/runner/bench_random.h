#pragma once

#include <cmath>
#include <cstdint>

namespace quire {

// Numbers for workloads that are the same on every machine: splitmix64 (Steele, Lea, Flood 2014).
class BenchRandom {
 public:
  explicit BenchRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  // In [low, high].
  int between(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  // In (0, 1].
  double uniform() { return (static_cast<double>(next() >> 11) + 1) * 0x1p-53; }
  // Gaps of a Poisson process of that rate.
  double exponential(double rate) { return -std::log(uniform()) / rate; }
  // Log-normal: half of the draws lie below `median`; `sigma` is the spread of the logarithm.
  double log_normal(double median, double sigma) {
    constexpr double kTwoPi = 6.283185307179586;
    return median *
           std::exp(sigma * std::sqrt(-2 * std::log(uniform())) * std::cos(kTwoPi * uniform()));
  }

 private:
  std::uint64_t state_;
};

}  // namespace quire
