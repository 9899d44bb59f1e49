#pragma once

#include <set>
#include <span>
#include <vector>

#include "engine/core/large_pages.h"
#include "engine/core/prefetch.h"
#include "engine/core/prefix_index.h"

namespace quire {

// Tokens `a` and `b` both begin with.
int common_length(std::span<const TokenId> a, std::span<const TokenId> b);

// Which tokens each indexed block holds. What both prefix indexes find near misses with.
class BlockTokens {
 public:
  enum Lengths { kAny, kWhole };
  // kWhole: every block that is set is full.
  BlockTokens(int num_blocks, int block_size, Lengths lengths = kAny);

  int num_blocks() const { return static_cast<int>(tokens_.size() / block_size_); }
  void prefetch(BlockId block) const { prefetch_line(tokens_.data() + at(block) * block_size_); }
  void set(BlockId block, std::span<const TokenId> tokens);  // at most block_size
  void forget(BlockId block) { lengths_[at(block)] = 0; }    // not under kWhole
  // Empty: none known; under kWhole only of blocks that were set.
  std::span<const TokenId> of(BlockId block) const {
    return {tokens_.data() + at(block) * block_size_,
            lengths_.empty() ? block_size_ : lengths_[at(block)]};
  }

 private:
  static std::size_t at(BlockId block) { return static_cast<std::size_t>(index(block)); }

  const std::size_t block_size_;
  LargeVector<TokenId> tokens_;         // [num_blocks, block_size]
  std::vector<std::uint32_t> lengths_;  // [num_blocks]; empty under kWhole
};

// Blocks by their tokens, a prefix before what it begins. Neither the tokens of a block that is in
// such a set nor the BlockTokens may change place.
struct TokenOrder {
  using is_transparent = void;
  using Span = std::span<const TokenId>;
  const BlockTokens* tokens;

  bool operator()(BlockId a, BlockId b) const { return less(tokens->of(a), tokens->of(b)); }
  bool operator()(BlockId a, Span b) const { return less(tokens->of(a), b); }
  bool operator()(Span a, BlockId b) const { return less(a, tokens->of(b)); }
  static bool less(Span a, Span b);
};

// The blocks that continue one prefix, no two with the same tokens.
using Siblings = std::set<BlockId, TokenOrder>;

// The sibling that begins with most of `wanted`. Of several, the one with the next higher token
// behind the common part, else the one with the next lower, else one that ends there.
struct Closest {
  BlockId block = kNoBlock;  // kNoBlock only when there are no siblings
  int common = 0;            // tokens of `wanted` it begins with
};
Closest closest(const Siblings& siblings, std::span<const TokenId> wanted);

// The tokens of block number `position`, as far as the first `limit` of the request reach.
std::span<const TokenId> wanted_tokens(const PrefixKey& key, int position, int block_size,
                                       int limit);

// Notes in `match` where `wanted`, which begins at token `begin`, leaves the block closest to it,
// if both go on.
void note_difference(const Closest& found, const BlockTokens& tokens,
                     std::span<const TokenId> wanted, int begin, PrefixMatch& match);

}  // namespace quire
