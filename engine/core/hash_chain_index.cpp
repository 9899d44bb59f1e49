#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/core/block_tokens.h"
#include "engine/core/free_queue.h"
#include "engine/core/large_pages.h"
#include "engine/core/prefetch.h"
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

  template <typename F>
  void for_each(const F& f) const {
    if (only_ != kNoBlock) f(only_);
    if (many_) std::ranges::for_each(*many_, f);
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

// What a hash names. Alone on its line: a step touches many at random.
struct alignas(64) Node {
  BlockHash hash{};
  NodeId before = kNoNode;  // what it continues; only blocks have it
  Continuations next;
};

// Nodes by hash: an open-addressing table beside the nodes themselves. An indexed block's node has
// the block's number. Blocks outlive those before them, and a prefix begins with none: a hash that
// indexed blocks continue while no block ends it has one of as many further nodes. All memory is
// taken at once: growing would stall a step.
class NodeTable {
 public:
  explicit NodeTable(int num_blocks)
      : num_blocks_(num_blocks),
        nodes_(2 * static_cast<std::size_t>(num_blocks)),
        slots_(std::bit_ceil(4 * static_cast<std::size_t>(num_blocks))),
        mask_(slots_.size() - 1) {
    clear();
  }

  Node& operator[](NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  const Node& operator[](NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  static NodeId of(BlockId block) { return index(block); }
  bool is_block(NodeId id) const { return id != kNoNode && id < num_blocks_; }

  NodeId find(const BlockHash& hash) const { return slots_[slot_of(hash)].node; }

  // The node of `hash`, a bare one if there was none.
  NodeId find_or_add(const BlockHash& hash) {
    Slot& slot = slots_[slot_of(hash)];
    if (slot.node != kNoNode) return slot.node;
    slot = {take_bare(), tag_of(hash)};
    (*this)[slot.node].hash = hash;
    return slot.node;
  }

  // Gives `block` the node of `hash`, with what continues it; false if another block has it.
  bool occupy(const BlockHash& hash, BlockId block) {
    Slot& slot = slots_[slot_of(hash)];
    if (is_block(slot.node)) return false;
    if (slot.node != kNoNode) {
      move_continuations((*this)[slot.node], of(block));
      give_back(slot.node);
    }
    slot = {of(block), tag_of(hash)};
    (*this)[slot.node].hash = hash;
    return true;
  }

  // Takes the node from `block`. It stays a bare one while blocks continue it.
  void vacate(BlockId block) {
    Node& node = (*this)[of(block)];
    const std::size_t slot = slot_of(node.hash);
    QUIRE_CHECK(slots_[slot].node == of(block), index(block));
    if (node.next.empty()) {
      empty_slot(slot);
    } else {
      const NodeId bare = take_bare();
      (*this)[bare].hash = node.hash;
      move_continuations(node, bare);
      slots_[slot].node = bare;
    }
    node.hash = {};
    node.before = kNoNode;
  }

  // Removes a bare node.
  void remove(NodeId bare) {
    const std::size_t slot = slot_of((*this)[bare].hash);
    QUIRE_CHECK(slots_[slot].node == bare && !is_block(bare), bare);
    empty_slot(slot);
    give_back(bare);
  }

  void clear() {
    std::ranges::fill(slots_, Slot{});
    for (Node& node : nodes_) node = {};
    unused_.resize(static_cast<std::size_t>(num_blocks_));
    std::iota(unused_.rbegin(), unused_.rend(), num_blocks_);
  }

  void prefetch(NodeId id) const { prefetch_line(&(*this)[id]); }
  void prefetch_slot(const BlockHash& hash) const { prefetch_line(&slots_[tag_of(hash) & mask_]); }

  int num_bare() const { return num_blocks_ - static_cast<int>(unused_.size()); }
  std::span<const Node> bare() const {
    return std::span(nodes_).subspan(static_cast<std::size_t>(num_blocks_));
  }

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
  // Whatever was displaced past the hole moves up, so that no lookup ends at it too early.
  void empty_slot(std::size_t hole) {
    for (std::size_t at = next(hole); slots_[at].node != kNoNode; at = next(at)) {
      if (((at - slots_[at].tag) & mask_) < ((at - hole) & mask_)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
  }

  NodeId take_bare() {
    QUIRE_CHECK(!unused_.empty());
    const NodeId bare = unused_.back();
    unused_.pop_back();
    return bare;
  }
  void give_back(NodeId bare) {
    (*this)[bare] = {};
    unused_.push_back(bare);
  }
  void move_continuations(Node& from, NodeId to) {
    from.next.for_each([&](BlockId block) { (*this)[of(block)].before = to; });
    (*this)[to].next = std::exchange(from.next, {});
  }

  const NodeId num_blocks_;
  LargeVector<Node> nodes_;     // [2 * num_blocks], the blocks' first
  std::vector<NodeId> unused_;  // bare ones; the last is taken first
  LargeVector<Slot> slots_;     // at most half full
  std::size_t mask_;
};

class HashChainIndex : public PrefixIndex {
 public:
  HashChainIndex(int num_blocks, int block_size)
      : block_size_(block_size),
        tokens_(num_blocks, block_size, BlockTokens::kWhole),
        nodes_(num_blocks),
        released_(num_blocks) {
    while (released_.size() > 0) released_.remove(released_.front());
  }

  PrefixMatch match(const PrefixKey& key, int max_tokens) const override;
  bool insert(const PrefixKey& key, int position, int num_tokens, BlockId block) override;
  bool partial_blocks() const override { return false; }
  std::vector<BlockId> erase(BlockId block) override;
  bool contains(BlockId block) const override {
    return nodes_[NodeTable::of(block)].before != kNoNode;
  }
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
  NodeId node_before(const PrefixKey& key, std::size_t at);

  const int block_size_;
  BlockTokens tokens_;
  NodeTable nodes_;
  int size_ = 0;
  FreeQueue released_;     // in the order they were released
  NodeId last_ = kNoNode;  // of the block inserted last
};

PrefixMatch HashChainIndex::match(const PrefixKey& key, int max_tokens) const {
  PrefixMatch found;
  NodeId here = nodes_.find(key.root);
  if (here == kNoNode) return found;
  const int whole = std::min(static_cast<int>(key.chain.size()), max_tokens / block_size_);
  int n = 0;
  for (; n < whole; ++n) {
    const NodeId next = nodes_.find(key.chain[static_cast<std::size_t>(n)]);
    if (!nodes_.is_block(next)) break;
    if (n == 0) {
      found.blocks.reserve(static_cast<std::size_t>(whole));
      prefetch_insert(key, 1, std::min(whole, kLookahead + 1));
    }
    if (n + kLookahead < whole) prefetch_insert(key, n + kLookahead, n + kLookahead + 1);
    found.blocks.push_back(BlockId{next});
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
  const bool known =
      last_ != kNoNode && nodes_[last_].before != kNoNode && same(nodes_[last_].hash, hash);
  return known ? last_ : nodes_.find_or_add(hash);
}

bool HashChainIndex::insert(const PrefixKey& key, int position, int num_tokens, BlockId block) {
  QUIRE_CHECK(num_tokens == block_size_, num_tokens);
  QUIRE_CHECK(!contains(block), index(block));
  const auto at = static_cast<std::size_t>(position);
  if (!nodes_.occupy(key.chain[at], block)) return false;
  const NodeId before = node_before(key, at);
  tokens_.set(block, wanted_tokens(key, position, block_size_, (position + 1) * block_size_));
  nodes_[before].next.insert(block, tokens_);
  last_ = NodeTable::of(block);
  nodes_[last_].before = before;
  ++size_;
  return true;
}

std::vector<BlockId> HashChainIndex::erase(BlockId block) {
  if (!contains(block)) return {};
  if (released_.contains(block)) released_.remove(block);
  const NodeId before = nodes_[NodeTable::of(block)].before;
  nodes_[before].next.erase(block);
  if (!nodes_.is_block(before) && nodes_[before].next.empty()) nodes_.remove(before);
  nodes_.vacate(block);
  --size_;
  return {block};
}

void HashChainIndex::prefetch(std::span<const BlockId> blocks) const {
  for (const BlockId block : blocks) {
    nodes_.prefetch(NodeTable::of(block));
    released_.prefetch(block);
  }
}

std::vector<BlockId> HashChainIndex::prefetch_victims(int count) const {
  std::vector<BlockId> victims;
  victims.reserve(static_cast<std::size_t>(std::min(count, released_.size())));
  for (BlockId b = victim(); b != kNoBlock && count > 0; b = released_.after(b), --count) {
    victims.push_back(b);
    nodes_.prefetch(NodeTable::of(b));
  }
  for (const BlockId b : victims) {
    nodes_.prefetch_slot(nodes_[NodeTable::of(b)].hash);
    tokens_.prefetch(b);  // what takes the block over is written there
  }
  return victims;
}

void HashChainIndex::prefetch_insert(const PrefixKey& key, int begin, int end) const {
  for (int i = begin; i < end; ++i) nodes_.prefetch_slot(key.chain[static_cast<std::size_t>(i)]);
}

void HashChainIndex::clear() {
  while (released_.size() > 0) released_.remove(released_.front());
  nodes_.clear();
  size_ = 0;
}

void HashChainIndex::check_integrity() const {
  int indexed = 0, queued = 0, continuations = 0;
  for (int b = 0; b < tokens_.num_blocks(); ++b) {
    const BlockId block{b};
    const Node& node = nodes_[NodeTable::of(block)];
    if (released_.contains(block)) ++queued;
    continuations += node.next.size();
    if (!contains(block)) {
      QUIRE_CHECK(!released_.contains(block) && node.next.empty(), b);
      continue;
    }
    ++indexed;
    QUIRE_CHECK(nodes_.find(node.hash) == NodeTable::of(block), b);
    QUIRE_CHECK(nodes_.find(nodes_[node.before].hash) == node.before, b);
    QUIRE_CHECK(nodes_[node.before].next.contains(block), b);
  }
  int bare = 0;
  for (const Node& node : nodes_.bare()) {
    QUIRE_CHECK(node.before == kNoNode);
    if (!node.next.empty()) ++bare;
    continuations += node.next.size();
  }
  QUIRE_CHECK(bare == nodes_.num_bare(), bare, nodes_.num_bare());
  QUIRE_CHECK(indexed == size_ && continuations == size_, indexed, size_, continuations);
  QUIRE_CHECK(queued == released_.size(), queued, released_.size());
}

}  // namespace

std::unique_ptr<PrefixIndex> make_hash_chain_index(int num_blocks, int block_size) {
  return std::make_unique<HashChainIndex>(num_blocks, block_size);
}

}  // namespace quire
