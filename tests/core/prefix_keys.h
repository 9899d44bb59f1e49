#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "engine/core/block_hash.h"
#include "engine/core/prefix_index.h"

namespace quire::test {

// A request's tokens with the hashes an index wants of it.
struct KnownTokens {
  KnownTokens(std::vector<TokenId> all, int block_size, const std::string& cache_salt = {})
      : tokens(std::move(all)), salt(cache_salt), root(hash_root({}, salt)) {
    const auto size = static_cast<std::size_t>(block_size);
    for (std::size_t end = size; end <= tokens.size(); end += size)
      chain.push_back(hash_block(chain.empty() ? root : chain.back(),
                                 std::span(tokens).subspan(end - size, size)));
  }
  PrefixKey key() const { return {tokens, chain, root}; }

  std::vector<TokenId> tokens;
  std::string salt;
  BlockHash root;
  std::vector<BlockHash> chain;
};

}  // namespace quire::test
