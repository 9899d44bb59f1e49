#include "engine/core/block_hash.h"

#include <sodium.h>

#include "engine/core/mutation.h"
#include "kernels/check.h"

namespace quire {
namespace {

class Blake2b {
 public:
  Blake2b() {
    static const bool ready = sodium_init() >= 0;
    QUIRE_CHECK(ready);
    crypto_generichash_init(&state_, nullptr, 0, sizeof(BlockHash));
  }

  void bytes(const void* data, std::size_t size) {
    crypto_generichash_update(&state_, static_cast<const unsigned char*>(data), size);
  }

  void number(std::uint64_t value) {
    std::uint8_t encoded[8];
    for (int i = 0; i < 8; ++i) encoded[i] = static_cast<std::uint8_t>(value >> (8 * i));
    bytes(encoded, sizeof encoded);
  }

  void tokens(std::span<const TokenId> ids) {
    std::uint8_t encoded[4 * 64];
    std::size_t size = 0;
    for (const TokenId id : ids) {
      const auto value = static_cast<std::uint32_t>(id);
      for (int i = 0; i < 4; ++i) encoded[size++] = static_cast<std::uint8_t>(value >> (8 * i));
      if (size == sizeof encoded) {
        bytes(encoded, size);
        size = 0;
      }
    }
    bytes(encoded, size);
  }

  BlockHash digest() {
    BlockHash hash;
    crypto_generichash_final(&state_, hash.data(), hash.size());
    return hash;
  }

 private:
  crypto_generichash_state state_;
};

}  // namespace

BlockHash hash_root(std::string_view cache_key, std::string_view cache_salt) {
  Blake2b hash;
  hash.number(0);
  if (mutated(Mutation::kSaltIgnored)) cache_salt = {};
  for (const std::string_view part : {cache_key, cache_salt}) {
    hash.number(part.size());
    hash.bytes(part.data(), part.size());
  }
  return hash.digest();
}

BlockHash hash_block(const BlockHash& parent, std::span<const TokenId> tokens) {
  Blake2b hash;
  hash.number(1);
  hash.bytes(parent.data(), parent.size());
  hash.number(tokens.size());
  hash.tokens(tokens);
  return hash.digest();
}

}  // namespace quire
