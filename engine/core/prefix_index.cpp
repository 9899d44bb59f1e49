#include "engine/core/prefix_index.h"

#include <unordered_map>

namespace quire {
namespace {

class HashChainIndex : public PrefixIndex {
 public:
  std::vector<BlockId> longest_prefix(std::span<const BlockHash> chain) const override {
    std::vector<BlockId> found;
    for (const BlockHash& hash : chain) {
      const BlockId block = find(hash);
      if (block == kNoBlock) break;
      found.push_back(block);
    }
    return found;
  }

  bool insert(std::span<const BlockHash> chain, BlockId block) override {
    return blocks_.try_emplace(chain.back(), block).second;
  }

  BlockId find(const BlockHash& hash) const override {
    const auto it = blocks_.find(hash);
    return it == blocks_.end() ? kNoBlock : it->second;
  }

  void erase(const BlockHash& hash) override { blocks_.erase(hash); }
  void clear() override { blocks_.clear(); }
  int size() const override { return static_cast<int>(blocks_.size()); }

 private:
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> blocks_;
};

}  // namespace

std::unique_ptr<PrefixIndex> make_hash_chain_index() {
  return std::make_unique<HashChainIndex>();
}

}  // namespace quire
