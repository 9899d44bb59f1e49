#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/core/block_tokens.h"
#include "engine/core/free_queue.h"
#include "engine/core/large_pages.h"
#include "engine/core/prefix_index.h"
#include "kernels/check.h"

namespace quire {
namespace {

// A run that began to match is fetched so many blocks ahead.
constexpr int kLookahead = 12;

using NodeId = std::int32_t;
constexpr NodeId kNoNode = -1;

// std::array's operator== calls memcmp.
bool same(const BlockHash& a, const BlockHash& b) {
  std::uint64_t x[2], y[2];
  std::memcpy(x, a.data(), sizeof x);
  std::memcpy(y, b.data(), sizeof y);
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

// The blocks that continue one prefix. Nearly always one, which then needs no tree.
class Continuations {
 public:
  bool empty() const { return only_ == kNoBlock && many_ == nullptr; }
  int size() const { return many_ ? static_cast<int>(many_->size()) : only_ == kNoBlock ? 0 : 1; }
  bool contains(BlockId block) const {
    if (!many_) return only_ == block;
    const auto it = many_->find(block);
    return it != many_->end() && *it == block;
  }

  void insert(BlockId block, const BlockTokens& tokens) {
    if (empty()) {
      only_ = block;
      return;
    }
    if (!many_) {
      many_ = std::make_unique<Siblings>(TokenOrder{&tokens});
      many_->insert(std::exchange(only_, kNoBlock));
    }
    many_->insert(block);
  }

  void erase(BlockId block) {
    if (!many_) {
      only_ = kNoBlock;
      return;
    }
    many_->erase(block);
    if (many_->size() > 1) return;
    only_ = *many_->begin();
    many_.reset();
  }

  Closest closest_to(std::span<const TokenId> wanted, const BlockTokens& tokens) const {
    if (many_) return closest(*many_, wanted);
    if (only_ == kNoBlock) return {};
    return {only_, common_length(wanted, tokens.of(only_))};
  }

 private:
  BlockId only_ = kNoBlock;
  std::unique_ptr<Siblings> many_;  // null, or at least two
};

// What a hash names. Blocks outlive those before them, so one of the two may be missing; with
// neither it is not kept.
struct Node {
  BlockHash hash{};
  BlockId block = kNoBlock;  // the block that ends it
  Continuations next;
};

// Nodes by hash: an open-addressing table beside the nodes themselves, so that a lookup touches one
// line of each. All memory is taken at once: growing would stall a step.
class NodeTable {
 public:
  explicit NodeTable(int capacity)
      : nodes_(static_cast<std::size_t>(capacity)),
        slots_(std::bit_ceil(2 * static_cast<std::size_t>(capacity))),
        mask_(slots_.size() - 1) {
    clear();
  }

  Node& operator[](NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& operator[](NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }

  NodeId find(const BlockHash& hash) const { return slots_[slot_of(hash)].node; }

  NodeId find_or_add(const BlockHash& hash) {
    Slot& slot = slots_[slot_of(hash)];
    if (slot.node != kNoNode) return slot.node;
    QUIRE_CHECK(!unused_.empty());
    slot = {unused_.back(), tag_of(hash)};
    unused_.pop_back();
    (*this)[slot.node].hash = hash;
    return slot.node;
  }

  void remove(NodeId id) {
    std::size_t hole = slot_of((*this)[id].hash);
    QUIRE_CHECK(slots_[hole].node == id, id);
    // Whatever was displaced past the hole moves up, so that no lookup ends at it too early.
    for (std::size_t at = next(hole); slots_[at].node != kNoNode; at = next(at)) {
      if (((at - slots_[at].tag) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
    (*this)[id] = {};
    unused_.push_back(id);
  }

  void clear() {
    std::ranges::fill(slots_, Slot{});
    for (Node& node : nodes_) node = {};
    unused_.resize(nodes_.size());
    std::iota(unused_.rbegin(), unused_.rend(), 0);
  }

  void prefetch(NodeId id) const { __builtin_prefetch(&(*this)[id]); }
  void prefetch_slot(const BlockHash& hash) const {
    __builtin_prefetch(&slots_[tag_of(hash) & mask_]);
  }

  const LargeVector<Node>& nodes() const { return nodes_; }
  int size() const { return static_cast<int>(nodes_.size() - unused_.size()); }

 private:
  struct Slot {
    NodeId node = kNoNode;
    std::uint32_t tag = 0;  // of the hash; its low bits are the home slot
  };

  std::size_t next(std::size_t slot) const { return (slot + 1) & mask_; }
  static std::uint32_t tag_of(const BlockHash& hash) {
    return static_cast<std::uint32_t>(BlockHashHasher{}(hash));
  }
  // Where `hash` stands, or the empty slot where it belongs.
  std::size_t slot_of(const BlockHash& hash) const {
    const std::uint32_t tag = tag_of(hash);
    std::size_t at = tag & mask_;
    for (; slots_[at].node != kNoNode; at = next(at))
      if (slots_[at].tag == tag && same((*this)[slots_[at].node].hash, hash)) break;
    return at;
  }

  LargeVector<Node> nodes_;
  std::vector<NodeId> unused_;  // the last is taken first
  LargeVector<Slot> slots_;     // at most half full
  std::size_t mask_;
};

class HashChainIndex : public PrefixIndex {
 public:
  HashChainIndex(int num_blocks, int block_size)
      : block_size_(block_size),
        tokens_(num_blocks, block_size),
        nodes_(2 * num_blocks),  // of each block the one it ends and the one it continues
        places_(static_cast<std::size_t>(num_blocks)),
        released_(num_blocks) {
    while (released_.size() > 0) released_.remove(released_.front());
  }

  PrefixMatch match(const PrefixKey& key, int max_tokens) const override;
  bool insert(const PrefixKey& key, int position, int num_tokens, BlockId block) override;
  bool partial_blocks() const override { return false; }
  std::vector<BlockId> erase(BlockId block) override;
  bool contains(BlockId block) const override { return place(block).own != kNoNode; }
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
  void prefetch(std::span<const BlockId> blocks) const override;
  std::vector<BlockId> prefetch_victims(int count) const override;
  void prefetch_insert(const PrefixKey& key, int begin, int end) const override;

  void check_integrity() const override;

 private:
  struct Place {
    NodeId own = kNoNode;     // what the block ends; none: not indexed
    NodeId before = kNoNode;  // what it continues
  };

  Place& place(BlockId block) { return places_[static_cast<std::size_t>(index(block))]; }
  const Place& place(BlockId block) const {
    return places_[static_cast<std::size_t>(index(block))];
  }
  NodeId node_before(const PrefixKey& key, std::size_t at);
  void drop_if_unused(NodeId id) {
    if (nodes_[id].block == kNoBlock && nodes_[id].next.empty()) nodes_.remove(id);
  }

  const int block_size_;
  BlockTokens tokens_;
  NodeTable nodes_;
  std::vector<Place> places_;  // by block
  int size_ = 0;
  FreeQueue released_;         // in the order they were released
  NodeId last_own_ = kNoNode;  // of the block inserted last
};

PrefixMatch HashChainIndex::match(const PrefixKey& key, int max_tokens) const {
  PrefixMatch found;
  NodeId here = nodes_.find(key.root);
  if (here == kNoNode) return found;
  const int whole = std::min(static_cast<int>(key.chain.size()), max_tokens / block_size_);
  int n = 0;
  for (; n < whole; ++n) {
    const NodeId next = nodes_.find(key.chain[static_cast<std::size_t>(n)]);
    if (next == kNoNode || nodes_[next].block == kNoBlock) break;
    if (n == 0) {
      found.blocks.reserve(static_cast<std::size_t>(whole));
      prefetch_insert(key, 1, std::min(whole, kLookahead + 1));
    }
    if (n + kLookahead < whole) prefetch_insert(key, n + kLookahead, n + kLookahead + 1);
    found.blocks.push_back(nodes_[next].block);
    here = next;
  }
  const auto wanted = wanted_tokens(key, n, block_size_, max_tokens);
  if (!wanted.empty())
    note_difference(nodes_[here].next.closest_to(wanted, tokens_), tokens_, wanted, n * block_size_,
                    found);
  return found;
}

// Blocks are inserted one behind the other, so the last one is nearly always it.
NodeId HashChainIndex::node_before(const PrefixKey& key, std::size_t at) {
  const BlockHash& hash = at == 0 ? key.root : key.chain[at - 1];
  const bool known = last_own_ != kNoNode && nodes_[last_own_].block != kNoBlock &&
                     same(nodes_[last_own_].hash, hash);
  return known ? last_own_ : nodes_.find_or_add(hash);
}

bool HashChainIndex::insert(const PrefixKey& key, int position, int num_tokens, BlockId block) {
  QUIRE_CHECK(num_tokens == block_size_, num_tokens);
  QUIRE_CHECK(!contains(block), index(block));
  const auto at = static_cast<std::size_t>(position);
  const NodeId own = nodes_.find_or_add(key.chain[at]);
  if (nodes_[own].block != kNoBlock) return false;
  const NodeId before = node_before(key, at);
  tokens_.set(block, wanted_tokens(key, position, block_size_, (position + 1) * block_size_));
  nodes_[own].block = block;
  nodes_[before].next.insert(block, tokens_);
  place(block) = {own, before};
  last_own_ = own;
  ++size_;
  return true;
}

std::vector<BlockId> HashChainIndex::erase(BlockId block) {
  if (!contains(block)) return {};
  if (released_.contains(block)) released_.remove(block);
  const Place was = std::exchange(place(block), Place{});
  nodes_[was.own].block = kNoBlock;
  nodes_[was.before].next.erase(block);
  drop_if_unused(was.own);
  drop_if_unused(was.before);
  --size_;
  return {block};
}

void HashChainIndex::prefetch(std::span<const BlockId> blocks) const {
  for (const BlockId block : blocks) {
    __builtin_prefetch(&place(block));
    released_.prefetch(block);
  }
}

std::vector<BlockId> HashChainIndex::prefetch_victims(int count) const {
  std::vector<BlockId> victims;
  victims.reserve(static_cast<std::size_t>(std::min(count, released_.size())));
  for (BlockId b = victim(); b != kNoBlock && count > 0; b = released_.after(b), --count) {
    victims.push_back(b);
    __builtin_prefetch(&place(b));
  }
  // One round per level of indirection.
  for (const BlockId b : victims) nodes_.prefetch(place(b).own);
  for (const BlockId b : victims) nodes_.prefetch_slot(nodes_[place(b).own].hash);
  return victims;
}

void HashChainIndex::prefetch_insert(const PrefixKey& key, int begin, int end) const {
  for (int i = begin; i < end; ++i) nodes_.prefetch_slot(key.chain[static_cast<std::size_t>(i)]);
}

void HashChainIndex::clear() {
  while (released_.size() > 0) released_.remove(released_.front());
  nodes_.clear();
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
    QUIRE_CHECK(nodes_.find(nodes_[own].hash) == own && nodes_[own].block == block, b);
    QUIRE_CHECK(nodes_.find(nodes_[before].hash) == before, b);
    QUIRE_CHECK(nodes_[before].next.contains(block), b);
    QUIRE_CHECK(static_cast<int>(tokens_.of(block).size()) == block_size_, b);
  }
  int kept = 0, ends = 0, continuations = 0;
  for (const Node& node : nodes_.nodes()) {
    if (node.block == kNoBlock && node.next.empty()) continue;
    ++kept;
    ends += node.block == kNoBlock ? 0 : 1;
    continuations += node.next.size();
  }
  QUIRE_CHECK(kept == nodes_.size(), kept, nodes_.size());
  QUIRE_CHECK(indexed == size_ && ends == size_ && continuations == size_, indexed, size_, ends,
              continuations);
  QUIRE_CHECK(queued == released_.size(), queued, released_.size());
}

}  // namespace

std::unique_ptr<PrefixIndex> make_hash_chain_index(int num_blocks, int block_size) {
  return std::make_unique<HashChainIndex>(num_blocks, block_size);
}

}  // namespace quire
