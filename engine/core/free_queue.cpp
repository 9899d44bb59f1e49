#include "engine/core/free_queue.h"

#include "kernels/check.h"

namespace quire {

FreeQueue::FreeQueue(int num_blocks)
    : next_(static_cast<std::size_t>(num_blocks) + 1, kOutside),
      previous_(static_cast<std::size_t>(num_blocks) + 1, kOutside) {
  next_[sentinel()] = previous_[sentinel()] = sentinel();
  for (int b = 0; b < num_blocks; ++b) push_back(BlockId{b});
}

BlockId FreeQueue::after(BlockId block) const {
  const std::int32_t next = next_[at(block)];
  return next == sentinel() ? kNoBlock : BlockId{next};
}

void FreeQueue::remove(BlockId block) {
  QUIRE_CHECK(contains(block), index(block));
  const std::int32_t before = previous_[at(block)], behind = next_[at(block)];
  next_[before] = behind;
  previous_[behind] = before;
  next_[at(block)] = previous_[at(block)] = kOutside;
  --size_;
}

void FreeQueue::link(BlockId block, std::int32_t before, std::int32_t behind) {
  QUIRE_CHECK(!contains(block), index(block));
  next_[at(block)] = behind;
  previous_[at(block)] = before;
  next_[before] = previous_[behind] = index(block);
  ++size_;
}

}  // namespace quire
