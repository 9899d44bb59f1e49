#pragma once

#include <vector>

#include "engine/core/ids.h"

namespace quire {

// The free blocks in the order they will be reused: a doubly linked list over arrays, so any block
// can leave the middle in constant time.
class FreeQueue {
 public:
  // Holds every block, lowest id first.
  explicit FreeQueue(int num_blocks);

  int size() const { return size_; }
  bool contains(BlockId block) const { return next_[at(block)] != kOutside; }
  BlockId front() const { return BlockId{next_[sentinel()]}; }  // only when not empty
  // The block behind `block`, kNoBlock at the end.
  BlockId after(BlockId block) const;

  void push_front(BlockId block) { link(block, sentinel(), next_[sentinel()]); }
  void push_back(BlockId block) { link(block, previous_[sentinel()], sentinel()); }
  void remove(BlockId block);

 private:
  static constexpr std::int32_t kOutside = -1;
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(index(block)); }
  std::int32_t sentinel() const { return static_cast<std::int32_t>(next_.size()) - 1; }
  void link(BlockId block, std::int32_t before, std::int32_t behind);

  std::vector<std::int32_t> next_, previous_;  // [num_blocks + 1], the last closes the ring
  int size_ = 0;
};

}  // namespace quire
