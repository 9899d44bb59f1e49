#include "engine/core/free_queue.h"

#include "kernels/check.h"

namespace quire {

FreeQueue::FreeQueue(int num_blocks) : links_(static_cast<std::size_t>(num_blocks) + 1) {
  links_.back() = {sentinel(), sentinel()};
  for (int b = 0; b < num_blocks; ++b) push_back(BlockId{b});
}

BlockId FreeQueue::after(BlockId block) const {
  const std::int32_t next = links_[at(block)].next;
  return next == sentinel() ? kNoBlock : BlockId{next};
}

void FreeQueue::remove(BlockId block) {
  QUIRE_CHECK(contains(block), index(block));
  const Link was = links_[at(block)];
  link_of(was.previous).next = was.next;
  link_of(was.next).previous = was.previous;
  links_[at(block)] = {};
  --size_;
}

void FreeQueue::link(BlockId block, std::int32_t before, std::int32_t behind) {
  QUIRE_CHECK(!contains(block), index(block));
  links_[at(block)] = {behind, before};
  link_of(before).next = link_of(behind).previous = index(block);
  ++size_;
}

}  // namespace quire
