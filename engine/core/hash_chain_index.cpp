#include <algorithm>
#include <unordered_map>
#include <utility>

#include "engine/core/block_tokens.h"
#include "engine/core/free_queue.h"
#include "engine/core/prefix_index.h"
#include "kernels/check.h"

namespace quire {
namespace {

class HashChainIndex : public PrefixIndex {
 public:
  HashChainIndex(int num_blocks, int block_size)
      : block_size_(block_size),
        tokens_(num_blocks, block_size),
        places_(static_cast<std::size_t>(num_blocks)),
        released_(num_blocks) {
    prefixes_.reserve(static_cast<std::size_t>(num_blocks));  // growing would stall a step
    while (released_.size() > 0) released_.remove(released_.front());
  }

  PrefixMatch match(const PrefixKey& key, int max_tokens) const override;
  bool insert(const PrefixKey& key, int position, int num_tokens, BlockId block) override;
  bool partial_blocks() const override { return false; }
  std::vector<BlockId> erase(BlockId block) override;
  bool contains(BlockId block) const override { return place(block).own != nullptr; }
  void clear() override;
  int size() const override { return size_; }

  void released(BlockId block) override {
    QUIRE_CHECK(contains(block), index(block));
    released_.push_back(block);
  }
  void reused(BlockId block) override { released_.remove(block); }
  BlockId victim() const override { return released_.size() > 0 ? released_.front() : kNoBlock; }
  int num_released() const override { return released_.size(); }
  int num_tokens(BlockId block) const override { return contains(block) ? block_size_ : 0; }

  void check_integrity() const override;

 private:
  // What a hash names. Blocks outlive those before them, so one of the two may be missing; with
  // neither it is not kept.
  struct Prefix {
    explicit Prefix(const BlockTokens& tokens) : next(TokenOrder{&tokens}) {}
    BlockId block = kNoBlock;  // the block that ends it
    Siblings next;             // the blocks that continue it
  };
  using Prefixes = std::unordered_map<BlockHash, Prefix, BlockHashHasher>;
  struct Place {
    Prefixes::value_type* own = nullptr;     // what the block ends; null: not indexed
    Prefixes::value_type* before = nullptr;  // what it continues
  };

  Place& place(BlockId block) { return places_[static_cast<std::size_t>(index(block))]; }
  const Place& place(BlockId block) const {
    return places_[static_cast<std::size_t>(index(block))];
  }
  const Prefix* find(const BlockHash& hash) const {
    const auto it = prefixes_.find(hash);
    return it == prefixes_.end() ? nullptr : &it->second;
  }
  void drop_if_unused(const Prefixes::value_type& entry) {
    if (entry.second.block == kNoBlock && entry.second.next.empty())
      prefixes_.erase(prefixes_.find(entry.first));
  }

  const int block_size_;
  BlockTokens tokens_;
  Prefixes prefixes_;
  std::vector<Place> places_;  // by block
  int size_ = 0;
  FreeQueue released_;  // in the order they were released
};

PrefixMatch HashChainIndex::match(const PrefixKey& key, int max_tokens) const {
  PrefixMatch found;
  const Prefix* here = find(key.root);
  if (here == nullptr) return found;
  const int whole = std::min(static_cast<int>(key.chain.size()), max_tokens / block_size_);
  int n = 0;
  for (; n < whole; ++n) {
    const Prefix* next = find(key.chain[static_cast<std::size_t>(n)]);
    if (next == nullptr || next->block == kNoBlock) break;
    if (n == 0) found.blocks.reserve(static_cast<std::size_t>(whole));
    found.blocks.push_back(next->block);
    here = next;
  }
  const auto wanted = wanted_tokens(key, n, block_size_, max_tokens);
  if (!wanted.empty())
    note_difference(closest(here->next, wanted), tokens_, wanted, n * block_size_, found);
  return found;
}

bool HashChainIndex::insert(const PrefixKey& key, int position, int num_tokens, BlockId block) {
  QUIRE_CHECK(num_tokens == block_size_, num_tokens);
  QUIRE_CHECK(!contains(block), index(block));
  const auto at = static_cast<std::size_t>(position);
  auto& own = *prefixes_.try_emplace(key.chain[at], tokens_).first;
  if (own.second.block != kNoBlock) return false;
  auto& before =
      *prefixes_.try_emplace(position == 0 ? key.root : key.chain[at - 1], tokens_).first;
  tokens_.set(block, wanted_tokens(key, position, block_size_, (position + 1) * block_size_));
  own.second.block = block;
  before.second.next.insert(block);
  place(block) = {&own, &before};
  ++size_;
  return true;
}

std::vector<BlockId> HashChainIndex::erase(BlockId block) {
  if (!contains(block)) return {};
  if (released_.contains(block)) released_.remove(block);
  const Place was = std::exchange(place(block), Place{});
  was.own->second.block = kNoBlock;
  was.before->second.next.erase(block);
  drop_if_unused(*was.own);
  drop_if_unused(*was.before);
  tokens_.forget(block);
  --size_;
  return {block};
}

void HashChainIndex::clear() {
  while (released_.size() > 0) released_.remove(released_.front());
  prefixes_.clear();
  places_.assign(places_.size(), {});
  size_ = 0;
}

void HashChainIndex::check_integrity() const {
  int indexed = 0, queued = 0;
  for (std::size_t b = 0; b < places_.size(); ++b) {
    const BlockId block{static_cast<std::int32_t>(b)};
    if (released_.contains(block)) ++queued;
    if (!contains(block)) {
      QUIRE_CHECK(!released_.contains(block), b);
      continue;
    }
    ++indexed;
    const auto& [own, before] = place(block);
    QUIRE_CHECK(find(own->first) == &own->second && own->second.block == block, b);
    const auto it = before->second.next.find(block);
    QUIRE_CHECK(find(before->first) == &before->second, b);
    QUIRE_CHECK(it != before->second.next.end() && *it == block, b);
    QUIRE_CHECK(static_cast<int>(tokens_.of(block).size()) == block_size_, b);
  }
  int ends = 0, continuations = 0;
  for (const auto& [hash, prefix] : prefixes_) {
    QUIRE_CHECK(prefix.block != kNoBlock || !prefix.next.empty());
    ends += prefix.block == kNoBlock ? 0 : 1;
    continuations += static_cast<int>(prefix.next.size());
  }
  QUIRE_CHECK(indexed == size_ && ends == size_ && continuations == size_, indexed, size_, ends,
              continuations);
  QUIRE_CHECK(queued == released_.size(), queued, released_.size());
}

}  // namespace

std::unique_ptr<PrefixIndex> make_hash_chain_index(int num_blocks, int block_size) {
  return std::make_unique<HashChainIndex>(num_blocks, block_size);
}

}  // namespace quire
