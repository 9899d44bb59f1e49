#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>

namespace quire {

using TokenId = std::int32_t;

// Identity of a KV block, in [0, num_blocks). kNoBlock is "none".
enum class BlockId : std::int32_t {};
inline constexpr BlockId kNoBlock{-1};
constexpr std::int32_t index(BlockId block) {
  return static_cast<std::int32_t>(block);
}

// Identity of a request within one engine, unique for the engine's life, increasing with arrival.
enum class RequestId : std::int64_t {};
inline constexpr RequestId kNoRequest{-1};
constexpr std::int64_t index(RequestId request) {
  return static_cast<std::int64_t>(request);
}

// BLAKE2b-128 of a full block's tokens chained to its parent's hash (see core/block_hash.h).
using BlockHash = std::array<std::uint8_t, 16>;

// The digest is uniform, so its first bytes serve as the table hash.
struct BlockHashHasher {
  std::size_t operator()(const BlockHash& hash) const {
    std::uint64_t value = 0;
    std::memcpy(&value, hash.data(), sizeof value);
    return value;
  }
};

}  // namespace quire
