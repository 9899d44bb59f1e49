#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/backend.h"

namespace quire::cpu {

// The largest of logits that any threads offer, in any order. One word holds the logit, as an
// integer that orders like it, above the id, from which lower ids are larger.
class RunningLargest {
 public:
  // Logits of ids [first, first + count).
  void offer(const float* logits, std::int32_t first, int count) {
    const float known = logit_of(best_.load(std::memory_order_relaxed));
    int any = 0;
    for (int i = 0; i < count; ++i) any |= logits[i] >= known;
    if (any == 0) return;
    for (int i = 0; i < count; ++i)
      if (logits[i] >= known && logits[i] > kNone) raise(key_of(logits[i], first + i));
  }
  LargestLogit result() const {
    const std::uint64_t best = best_.load(std::memory_order_relaxed);
    if (best == 0) return {};
    return {logit_of(best), static_cast<std::int32_t>(~static_cast<std::uint32_t>(best))};
  }

 private:
  static constexpr float kNone = -std::numeric_limits<float>::infinity();
  static constexpr std::uint32_t kSign = 0x80000000u;

  static std::uint64_t key_of(float logit, std::int32_t id) {
    const float finite = logit < kMost ? logit + 0.0f : kMost;  // of both zeros the positive one
    const auto bits = std::bit_cast<std::uint32_t>(finite);
    const std::uint32_t ordered = (bits & kSign) != 0 ? ~bits : bits | kSign;
    return std::uint64_t{ordered} << 32 | ~static_cast<std::uint32_t>(id);
  }
  static float logit_of(std::uint64_t key) {
    if (key == 0) return kNone;
    const auto ordered = static_cast<std::uint32_t>(key >> 32);
    return std::bit_cast<float>((ordered & kSign) != 0 ? ordered & ~kSign : ~ordered);
  }
  void raise(std::uint64_t key) {
    std::uint64_t best = best_.load(std::memory_order_relaxed);
    while (key > best && !best_.compare_exchange_weak(best, key, std::memory_order_relaxed)) {
    }
  }

  static constexpr float kMost = std::numeric_limits<float>::max();
  std::atomic<std::uint64_t> best_{0};
};

}  // namespace quire::cpu
