#include <unordered_map>

#include "engine/core/free_queue.h"
#include "engine/core/prefix_index.h"
#include "kernels/check.h"

namespace quire {
namespace {

class HashChainIndex : public PrefixIndex {
 public:
  HashChainIndex(int num_blocks, int block_size)
      : block_size_(block_size), hashes_(num_blocks), released_(num_blocks) {
    while (released_.size() > 0) released_.remove(released_.front());
  }

  PrefixMatch match(const PrefixKey& key, int max_tokens) const override {
    PrefixMatch found;
    for (const BlockHash& hash : key.chain) {
      if ((static_cast<int>(found.blocks.size()) + 1) * block_size_ > max_tokens) break;
      const auto it = blocks_.find(hash);
      if (it == blocks_.end()) break;
      found.blocks.push_back(it->second);
    }
    return found;
  }

  bool insert(const PrefixKey& key, int position, int num_tokens, BlockId block) override {
    QUIRE_CHECK(num_tokens == block_size_, num_tokens);
    const auto [it, added] = blocks_.try_emplace(key.chain[position], block);
    if (added) hashes_[index(block)] = &it->first;
    return added;
  }
  bool partial_blocks() const override { return false; }

  std::vector<BlockId> erase(BlockId block) override {
    if (!contains(block)) return {};
    if (released_.contains(block)) released_.remove(block);
    blocks_.erase(*hashes_[index(block)]);
    hashes_[index(block)] = nullptr;
    return {block};
  }
  bool contains(BlockId block) const override { return hashes_[index(block)] != nullptr; }
  void clear() override {
    while (released_.size() > 0) released_.remove(released_.front());
    blocks_.clear();
    hashes_.assign(hashes_.size(), nullptr);
  }
  int size() const override { return static_cast<int>(blocks_.size()); }

  void released(BlockId block) override { released_.push_back(block); }
  void reused(BlockId block) override { released_.remove(block); }
  BlockId victim() const override { return released_.size() > 0 ? released_.front() : kNoBlock; }
  int num_released() const override { return released_.size(); }
  int num_tokens(BlockId block) const override { return contains(block) ? block_size_ : 0; }

  void check_integrity() const override {
    int indexed = 0;
    for (std::size_t b = 0; b < hashes_.size(); ++b) {
      const BlockId block{static_cast<std::int32_t>(b)};
      if (released_.contains(block)) QUIRE_CHECK(hashes_[b] != nullptr, b);
      if (hashes_[b] == nullptr) continue;
      ++indexed;
      const auto it = blocks_.find(*hashes_[b]);
      QUIRE_CHECK(it != blocks_.end() && it->second == block, b);
    }
    QUIRE_CHECK(indexed == size(), indexed, size());
  }

 private:
  const int block_size_;
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> blocks_;
  std::vector<const BlockHash*> hashes_;  // by block: its key in the map; null if not indexed
  FreeQueue released_;                    // in the order they were released
};

}  // namespace

std::unique_ptr<PrefixIndex> make_hash_chain_index(int num_blocks, int block_size) {
  return std::make_unique<HashChainIndex>(num_blocks, block_size);
}

}  // namespace quire
