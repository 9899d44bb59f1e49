#include "engine/core/swap_pool.h"

#include "kernels/check.h"

namespace quire {

SwapPool::SwapPool(int num_blocks) : num_blocks_(num_blocks) {
  for (int b = num_blocks - 1; b >= 0; --b) free_.push_back(b);
}

bool SwapPool::reserve(RequestId request, int num_blocks) {
  QUIRE_CHECK(!tables_.contains(request), index(request));
  if (num_blocks > num_free()) return false;
  std::vector<std::int32_t>& table = tables_[request];
  for (int i = 0; i < num_blocks; ++i) {
    table.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

std::span<const std::int32_t> SwapPool::table(RequestId request) const {
  const auto it = tables_.find(request);
  return it == tables_.end() ? std::span<const std::int32_t>() : it->second;
}

void SwapPool::release(RequestId request) {
  const auto it = tables_.find(request);
  if (it == tables_.end()) return;
  for (auto block = it->second.rbegin(); block != it->second.rend(); ++block)
    free_.push_back(*block);
  tables_.erase(it);
}

void SwapPool::check_integrity() const {
  std::vector<bool> seen(static_cast<std::size_t>(num_blocks_), false);
  const auto mark = [&](std::int32_t block) {
    QUIRE_CHECK(block >= 0 && block < num_blocks_, block);
    QUIRE_CHECK(!seen[block], block);
    seen[block] = true;
  };
  std::size_t count = free_.size();
  for (const std::int32_t block : free_) mark(block);
  for (const auto& [request, table] : tables_) {
    count += table.size();
    for (const std::int32_t block : table) mark(block);
  }
  QUIRE_CHECK(count == static_cast<std::size_t>(num_blocks_), count, num_blocks_);
}

}  // namespace quire
