#pragma once

#include "engine/core/ids.h"
#include "engine/core/large_pages.h"
#include "engine/core/prefetch.h"

namespace quire {

// The free blocks in the order they will be reused: a doubly linked list over arrays, so any block
// can leave the middle in constant time.
class FreeQueue {
 public:
  // Holds every block, lowest id first.
  explicit FreeQueue(int num_blocks);

  int size() const { return size_; }
  bool contains(BlockId block) const { return links_[at(block)].next != kOutside; }
  BlockId front() const { return BlockId{links_.back().next}; }  // only when not empty
  // The block behind `block`, kNoBlock at the end.
  BlockId after(BlockId block) const;

  void prefetch(BlockId block) const { prefetch_line(&links_[at(block)]); }
  void push_front(BlockId block) { link(block, sentinel(), links_.back().next); }
  void push_back(BlockId block) { link(block, links_.back().previous, sentinel()); }
  void remove(BlockId block);

 private:
  static constexpr std::int32_t kOutside = -1;
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(index(block)); }
  std::int32_t sentinel() const { return static_cast<std::int32_t>(links_.size()) - 1; }
  void link(BlockId block, std::int32_t before, std::int32_t behind);

  struct Link {
    std::int32_t next = kOutside, previous = kOutside;
  };
  Link& link_of(std::int32_t place) { return links_[static_cast<std::size_t>(place)]; }

  LargeVector<Link> links_;  // [num_blocks + 1], the last closes the ring
  int size_ = 0;
};

}  // namespace quire
