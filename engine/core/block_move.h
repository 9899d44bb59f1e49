#pragma once

#include <cstdint>

#include "engine/core/ids.h"

namespace quire {

enum class MoveKind : std::uint8_t {
  kCopy,     // pool -> pool
  kSwapOut,  // pool -> host
  kSwapIn,   // host -> pool
};

// One block whose contents go elsewhere before a step's forward. `source` and `target` are indices
// of pool blocks or of host blocks, as the kind says. Moves are made in the order they were
// planned: a block may be read by one and overwritten by a later one.
struct BlockMove {
  MoveKind kind = MoveKind::kCopy;
  std::int32_t source = 0, target = 0;
  int num_tokens = 0;  // tokens that matter, from the block's start; whole blocks may be moved
  RequestId request = kNoRequest;  // whose tokens they are from now on
  bool operator==(const BlockMove&) const = default;
};

}  // namespace quire
