#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/core/ids.h"

namespace quire {

// Which host block holds which block of a swapped-out request. Bookkeeping only: the runner owns
// the memory. Engine thread only.
class SwapPool {
 public:
  explicit SwapPool(int num_blocks);

  int num_blocks() const { return num_blocks_; }
  int num_free() const { return static_cast<int>(free_.size()); }
  // Takes `num_blocks` for a request that holds none. False, changing nothing, if there are fewer.
  [[nodiscard]] bool reserve(RequestId request, int num_blocks);
  // Host blocks of the request's first blocks, in logical order; empty if it holds none.
  std::span<const std::int32_t> table(RequestId request) const;
  void release(RequestId request);  // nothing if it holds none

  // Every block is either free or in exactly one table; aborts otherwise.
  void check_integrity() const;

 private:
  int num_blocks_;
  std::vector<std::int32_t> free_;  // taken from the back
  std::unordered_map<RequestId, std::vector<std::int32_t>> tables_;
};

}  // namespace quire
