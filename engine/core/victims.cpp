#include <algorithm>

#include "engine/core/scheduler.h"

namespace quire {
namespace {

// Whether `a` loses less per block gained than `b`, by cross-multiplication.
bool cheaper(long long lost_a, long long gain_a, long long lost_b, long long gain_b) {
  if (gain_a == 0 || gain_b == 0) return gain_a > gain_b;
  return lost_a * gain_b < lost_b * gain_a;
}

}  // namespace

Request* last_victim(std::span<Request* const> candidates, const BlockManager&) {
  return candidates.back();
}

Request* cheapest_victim(std::span<Request* const> candidates, const BlockManager& blocks) {
  Request* best = nullptr;
  int best_gain = 0;
  for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
    const int gain = blocks.num_private_blocks((*it)->id);
    if (best == nullptr ||
        cheaper((*it)->num_computed_tokens, gain, best->num_computed_tokens, best_gain)) {
      best = *it;
      best_gain = gain;
    }
  }
  return best;
}

bool swap_is_cheaper(const DecisionInputs& inputs, int num_tokens, int num_blocks) {
  if (inputs.swap_us_per_block <= 0 || inputs.recompute_us_per_token <= 0) return false;
  return 2 * num_blocks * inputs.swap_us_per_block < num_tokens * inputs.recompute_us_per_token;
}

}  // namespace quire
