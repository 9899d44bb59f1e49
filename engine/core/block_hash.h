#pragma once

#include <span>
#include <string_view>

#include "engine/core/ids.h"

namespace quire {

// Key of one full block: BLAKE2b-128 over the parent's key (or a root marker), the block's tokens
// and `cache_key`, so it stands for the whole history up to the block's end. Every part is fixed in
// width or preceded by its length, so two different inputs never encode alike. Cryptographic,
// because a crafted collision would let one request read another's keys and values.
// `parent` is null for a request's first block. Callable from any thread.
BlockHash hash_block(const BlockHash* parent, std::span<const TokenId> tokens,
                     std::string_view cache_key);

}  // namespace quire
