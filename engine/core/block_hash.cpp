#include "engine/core/block_hash.h"

#include <sodium.h>

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

BlockHash hash_block(const BlockHash* parent, std::span<const TokenId> tokens,
                     std::string_view cache_key) {
  Blake2b hash;
  hash.number(parent == nullptr ? 0 : 1);
  if (parent != nullptr) hash.bytes(parent->data(), parent->size());
  hash.number(tokens.size());
  hash.tokens(tokens);
  hash.number(cache_key.size());
  hash.bytes(cache_key.data(), cache_key.size());
  return hash.digest();
}

}  // namespace quire
