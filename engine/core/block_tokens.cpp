#include "engine/core/block_tokens.h"

#include <algorithm>

#include "kernels/check.h"

namespace quire {

int common_length(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

BlockTokens::BlockTokens(int num_blocks, int block_size, Lengths lengths)
    : block_size_(static_cast<std::size_t>(block_size)),
      tokens_(static_cast<std::size_t>(num_blocks) * block_size_),
      lengths_(lengths == kAny ? static_cast<std::size_t>(num_blocks) : 0, 0) {}

void BlockTokens::set(BlockId block, std::span<const TokenId> tokens) {
  QUIRE_CHECK(tokens.size() <= block_size_, tokens.size(), block_size_);
  QUIRE_CHECK(!lengths_.empty() || tokens.size() == block_size_, tokens.size(), block_size_);
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(at(block) * block_size_));
  if (!lengths_.empty()) lengths_[at(block)] = static_cast<std::uint32_t>(tokens.size());
}

bool TokenOrder::less(Span a, Span b) {
  return std::ranges::lexicographical_compare(a, b);
}

// In lexicographic order the longest common prefix is with a neighbour of where `wanted` belongs.
Closest closest(const Siblings& siblings, std::span<const TokenId> wanted) {
  const BlockTokens& tokens = *siblings.key_comp().tokens;
  Closest found;
  const auto behind = siblings.lower_bound(wanted);
  if (behind != siblings.end()) found = {*behind, common_length(wanted, tokens.of(*behind))};
  const bool whole = found.common == static_cast<int>(wanted.size());
  if (behind == siblings.begin() || (found.block != kNoBlock && whole)) return found;
  const BlockId before = *std::prev(behind);
  const int common = common_length(wanted, tokens.of(before));
  if (found.block == kNoBlock || common > found.common) found = {before, common};
  return found;
}

std::span<const TokenId> wanted_tokens(const PrefixKey& key, int position, int block_size,
                                       int limit) {
  const int known = std::min(static_cast<int>(key.tokens.size()), limit);
  const int begin = position * block_size;
  if (begin >= known) return {};
  return key.tokens.subspan(static_cast<std::size_t>(begin),
                            static_cast<std::size_t>(std::min(block_size, known - begin)));
}

void note_difference(const Closest& found, const BlockTokens& tokens,
                     std::span<const TokenId> wanted, int begin, PrefixMatch& match) {
  if (found.block == kNoBlock) return;
  const std::span<const TokenId> cached = tokens.of(found.block);
  const auto common = static_cast<std::size_t>(found.common);
  if (common >= wanted.size() || common >= cached.size()) return;
  match.cached_token = cached[common];
  match.differs_at = begin + found.common;
}

}  // namespace quire
