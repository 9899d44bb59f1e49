#pragma once

#include <span>
#include <string_view>

#include "engine/core/ids.h"

namespace quire {

// Keys of the prefix cache, BLAKE2b-128. Every hashed part is fixed in width or preceded by its
// length, so two different inputs never encode alike. Cryptographic, because a crafted collision
// would let one request read another's keys and values. Callable from any thread.

// The key before a request's first block: whatever besides tokens changes keys and values, and the
// tenant's salt.
BlockHash hash_root(std::string_view cache_key, std::string_view cache_salt);
// Key of a block of tokens behind `parent`: it stands for the whole history up to the block's end.
BlockHash hash_block(const BlockHash& parent, std::span<const TokenId> tokens);

}  // namespace quire
