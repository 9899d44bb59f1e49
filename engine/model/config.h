#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace quire {

// A decoder-only transformer described by data: what the one flat forward pass reads.
struct ModelConfig {
  std::string architecture;  // registry name: "llama", "qwen2", "qwen3"
  int vocab_size = 0;
  int hidden_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int ffn_size = 0;
  int context_length = 0;  // positions the model was trained for
  float norm_eps = 1e-5f;
  bool qkv_bias = false;
  bool o_bias = false;  // bias on the attention output
  bool qk_norm = false;
  bool tied_embeddings = false;
  Activation activation = Activation::kSiluMul;
  bool rope_interleaved = false;  // see RopeParams
  int rotary_dim = 0;
  std::vector<float> rope_inv_freq;  // [rotary_dim / 2], scaling applied
  float rope_scale = 1.0f;

  QkvShape qkv_shape() const { return {num_heads, num_kv_heads, head_dim}; }
  KvSpec kv_spec() const {
    return {std::vector<KvLayerSpec>(static_cast<std::size_t>(num_layers),
                                     {num_kv_heads, head_dim, 0})};
  }
};

}  // namespace quire
