#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "engine/core/block_tokens.h"
#include "engine/core/prefix_index.h"
#include "kernels/check.h"

namespace quire {
namespace {

class RadixIndex : public PrefixIndex {
 public:
  RadixIndex(int num_blocks, int block_size);

  PrefixMatch match(const PrefixKey& key, int max_tokens) const override;
  bool insert(const PrefixKey& key, int position, int num_tokens, BlockId block) override;
  bool partial_blocks() const override { return true; }
  std::vector<BlockId> erase(BlockId block) override;
  bool contains(BlockId block) const override { return node(block).parent != nullptr; }
  void clear() override;
  int size() const override { return size_; }

  void released(BlockId block) override;
  void reused(BlockId block) override;
  BlockId victim() const override;
  int num_released() const override { return static_cast<int>(leaves_.size() + inner_.size()); }
  int num_tokens(BlockId block) const override {
    return static_cast<int>(tokens_.of(block).size());
  }

  void check_integrity() const override;

 private:
  struct Node {
    Node(BlockId id, const BlockTokens& tokens) : block(id), children(TokenOrder{&tokens}) {}
    BlockId block;                    // kNoBlock: a root
    Siblings children;                // none below a block that is not full
    Node* parent = nullptr;           // null: a root, or not indexed
    const BlockHash* path = nullptr;  // its key in `roots_` or `paths_`; null when not full
    std::uint64_t released_at = 0;    // 0 also when superseded
    bool is_released = false;
    bool superseded = false;  // not full, and a sibling that begins with it came later
  };
  using Order = std::set<std::pair<std::uint64_t, BlockId>>;  // by released_at

  Node& node(BlockId block) { return nodes_[static_cast<std::size_t>(index(block))]; }
  const Node& node(BlockId block) const { return nodes_[static_cast<std::size_t>(index(block))]; }
  bool is_whole(BlockId block) const { return num_tokens(block) == block_size_; }
  Node* find_parent(const PrefixKey& key, int position);
  void supersede(BlockId shorter, std::span<const TokenId> tokens);
  // A released node is in one of the two orders; which one hangs on its having children. These do
  // nothing for others.
  void enter_order(const Node& entering);
  void leave_order(const Node& leaving);
  void reset(Node& gone);
  int check_subtree(const Node& top) const;
  void check_node(const Node& checked) const;

  const int block_size_;
  BlockTokens tokens_;
  std::vector<Node> nodes_;                                     // by block; never resized
  std::unordered_map<BlockHash, Node, BlockHashHasher> roots_;  // those with children
  // The whole blocks by chained hash: a new block's parent, without a walk down from the root.
  std::unordered_map<BlockHash, BlockId, BlockHashHasher> paths_;
  Order leaves_, inner_;  // released nodes
  std::uint64_t clock_ = 0;
  int size_ = 0;
};

RadixIndex::RadixIndex(int num_blocks, int block_size)
    : block_size_(block_size), tokens_(num_blocks, block_size) {
  nodes_.reserve(static_cast<std::size_t>(num_blocks));
  paths_.reserve(static_cast<std::size_t>(num_blocks));  // growing would stall a step
  for (int b = 0; b < num_blocks; ++b) nodes_.emplace_back(BlockId{b}, tokens_);
}

PrefixMatch RadixIndex::match(const PrefixKey& key, int max_tokens) const {
  PrefixMatch found;
  const auto root = roots_.find(key.root);
  if (root == roots_.end()) return found;
  const Node* here = &root->second;
  for (int position = 0;; ++position) {
    const auto wanted = wanted_tokens(key, position, block_size_, max_tokens);
    if (wanted.empty()) return found;
    const Closest next = closest(here->children, wanted);
    if (next.common == block_size_) {
      if (position == 0)
        found.blocks.reserve(std::min(key.tokens.size(), static_cast<std::size_t>(max_tokens)) /
                             static_cast<std::size_t>(block_size_));
      found.blocks.push_back(next.block);
      here = &node(next.block);
      continue;
    }
    if (next.common > 0) {
      found.partial = next.block;
      found.partial_tokens = next.common;
    }
    note_difference(next, tokens_, wanted, position * block_size_, found);
    return found;
  }
}

RadixIndex::Node* RadixIndex::find_parent(const PrefixKey& key, int position) {
  if (position == 0) {
    const auto [it, added] = roots_.try_emplace(key.root, kNoBlock, tokens_);
    if (added) it->second.path = &it->first;
    return &it->second;
  }
  const auto it = paths_.find(key.chain[static_cast<std::size_t>(position) - 1]);
  return it == paths_.end() ? nullptr : &node(it->second);
}

bool RadixIndex::insert(const PrefixKey& key, int position, int num_tokens, BlockId block) {
  const auto tokens =
      wanted_tokens(key, position, block_size_, position * block_size_ + num_tokens);
  QUIRE_CHECK(num_tokens > 0 && num_tokens == static_cast<int>(tokens.size()), num_tokens);
  QUIRE_CHECK(!contains(block), index(block));
  Node* parent = find_parent(key, position);
  if (parent == nullptr || closest(parent->children, tokens).common == num_tokens) return false;
  leave_order(*parent);
  tokens_.set(block, tokens);
  const auto it = parent->children.insert(block).first;
  // Only the neighbour can be a shorter block that nothing has superseded yet: whatever stood
  // between the two would begin with it as well.
  if (it != parent->children.begin()) supersede(*std::prev(it), tokens);
  enter_order(*parent);
  Node& added = node(block);
  added.parent = parent;
  if (num_tokens == block_size_) {
    const auto path = paths_.try_emplace(key.chain[static_cast<std::size_t>(position)], block);
    QUIRE_CHECK(path.second, index(block));
    added.path = &path.first->first;
  }
  ++size_;
  return true;
}

// Gives up `shorter` before all others if `tokens` begin with it: it has nothing else to offer.
void RadixIndex::supersede(BlockId shorter, std::span<const TokenId> tokens) {
  const auto known = tokens_.of(shorter);
  if (known.size() >= tokens.size() || !std::ranges::equal(known, tokens.first(known.size())))
    return;
  Node& old = node(shorter);
  leave_order(old);
  old.superseded = true;
  old.released_at = 0;
  enter_order(old);
}

void RadixIndex::enter_order(const Node& entering) {
  if (!entering.is_released) return;
  Order& order = entering.children.empty() ? leaves_ : inner_;
  order.emplace_hint(order.end(), entering.released_at, entering.block);  // mostly the newest
}

void RadixIndex::leave_order(const Node& leaving) {
  if (!leaving.is_released) return;
  (leaving.children.empty() ? leaves_ : inner_).erase({leaving.released_at, leaving.block});
}

std::vector<BlockId> RadixIndex::erase(BlockId block) {
  if (!contains(block)) return {};
  std::vector<BlockId> lost{block};
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const Siblings& children = node(lost[i]).children;
    lost.insert(lost.end(), children.begin(), children.end());
  }
  Node& parent = *node(block).parent;
  leave_order(parent);
  parent.children.erase(block);
  enter_order(parent);
  if (parent.block == kNoBlock && parent.children.empty()) roots_.erase(roots_.find(*parent.path));
  for (const BlockId gone : lost) reset(node(gone));
  return lost;
}

void RadixIndex::reset(Node& gone) {
  leave_order(gone);
  if (gone.path != nullptr) paths_.erase(paths_.find(*gone.path));
  gone = Node(gone.block, tokens_);
  tokens_.forget(gone.block);
  --size_;
}

void RadixIndex::clear() {
  leaves_.clear();
  inner_.clear();
  for (Node& gone : nodes_) {
    gone = Node(gone.block, tokens_);
    tokens_.forget(gone.block);
  }
  paths_.clear();
  roots_.clear();
  size_ = 0;
}

void RadixIndex::released(BlockId block) {
  Node& idle = node(block);
  QUIRE_CHECK(contains(block) && !idle.is_released, index(block));
  idle.is_released = true;
  idle.released_at = idle.superseded ? 0 : ++clock_;
  enter_order(idle);
}

void RadixIndex::reused(BlockId block) {
  Node& busy = node(block);
  QUIRE_CHECK(busy.is_released, index(block));
  leave_order(busy);
  busy.is_released = false;
}

BlockId RadixIndex::victim() const {
  if (!leaves_.empty()) return leaves_.begin()->second;
  return inner_.empty() ? kNoBlock : inner_.begin()->second;
}

void RadixIndex::check_node(const Node& checked) const {
  const std::int32_t b = index(checked.block);
  const int length = num_tokens(checked.block);
  QUIRE_CHECK(length > 0 && length <= block_size_, b, length);
  QUIRE_CHECK(is_whole(checked.block) || checked.children.empty(), b, length);
  const auto path = checked.path == nullptr ? paths_.end() : paths_.find(*checked.path);
  QUIRE_CHECK(is_whole(checked.block) == (path != paths_.end()), b, length);
  QUIRE_CHECK(path == paths_.end() || path->second == checked.block, b);
  QUIRE_CHECK(!checked.superseded || !is_whole(checked.block), b);
  QUIRE_CHECK(checked.released_at <= clock_, b, checked.released_at, clock_);
  const std::pair rank(checked.released_at, checked.block);
  const bool leaf = checked.children.empty();
  QUIRE_CHECK(leaves_.contains(rank) == (checked.is_released && leaf), b);
  QUIRE_CHECK(inner_.contains(rank) == (checked.is_released && !leaf), b);
}

// How many nodes are below `top`, which is one that has children.
int RadixIndex::check_subtree(const Node& top) const {
  int count = 0;
  std::vector<const Node*> open{&top};
  while (!open.empty()) {
    const Node& above = *open.back();
    open.pop_back();
    const Node* left = nullptr;
    for (const BlockId block : above.children) {
      const Node& child = node(block);
      QUIRE_CHECK(child.parent == &above && ++count <= size_, index(block), count, size_);
      QUIRE_CHECK(left == nullptr || above.children.key_comp()(left->block, block), index(block));
      check_node(child);
      left = &child;
      if (!child.children.empty()) open.push_back(&child);
    }
  }
  return count;
}

void RadixIndex::check_integrity() const {
  int reachable = 0, indexed = 0, whole = 0, idle = 0;
  for (const auto& [hash, root] : roots_) {
    QUIRE_CHECK(root.path == &hash && root.parent == nullptr && !root.children.empty());
    QUIRE_CHECK(!root.is_released && root.block == kNoBlock);
    reachable += check_subtree(root);
  }
  for (const Node& each : nodes_) {
    indexed += each.parent == nullptr ? 0 : 1;
    whole += each.path == nullptr ? 0 : 1;
    idle += each.is_released ? 1 : 0;
    QUIRE_CHECK((each.parent != nullptr) == (num_tokens(each.block) > 0), index(each.block));
  }
  QUIRE_CHECK(reachable == size_ && indexed == size_, reachable, indexed, size_);
  QUIRE_CHECK(whole == static_cast<int>(paths_.size()), whole, paths_.size());
  QUIRE_CHECK(idle == num_released(), idle, num_released());
}

}  // namespace

std::unique_ptr<PrefixIndex> make_radix_index(int num_blocks, int block_size) {
  return std::make_unique<RadixIndex>(num_blocks, block_size);
}

}  // namespace quire
