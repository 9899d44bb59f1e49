#pragma once

#include <random>

namespace quire::test {

// Random choices that are the same for a seed on every machine.
class Dice {
 public:
  explicit Dice(unsigned seed) : generator_(seed) {}
  // Uniform in [least, most].
  int operator()(int least, int most) {
    return least + static_cast<int>(generator_() % static_cast<unsigned>(most - least + 1));
  }
  bool chance(int percent) { return (*this)(1, 100) <= percent; }
  unsigned seed() { return static_cast<unsigned>(generator_()); }

 private:
  std::mt19937 generator_;
};

}  // namespace quire::test
