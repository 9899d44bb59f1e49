#pragma once

#include <span>
#include <string>
#include <string_view>

namespace quire {

// How one family of checkpoints differs from the common shape; everything else is the same forward.
struct Architecture {
  std::string_view name;      // GGUF general.architecture and Hugging Face model_type
  std::string_view hf_class;  // the one entry of `architectures` we run
  bool qkv_bias = false;      // always has biases on q, k, v (others: only when the file says so)
  bool qk_norm = false;       // per-head rmsnorm of q and k before rotation
  bool gguf_interleaved = false;  // GGUF stores q and k rows permuted for pairs (2i, 2i+1)
  int hf_head_dim = 0;            // head_dim when config.json has none; 0 = hidden / heads
};

std::span<const Architecture> architectures();
const Architecture* find_architecture(std::string_view name);  // nullptr: unknown
std::string architecture_names();                              // "llama, qwen2, qwen3", for errors

// Tensor names of one container. Layer names are `layer_prefix` + number + "." + stem; weights end
// in ".weight", biases in ".bias".
struct TensorNames {
  std::string_view embed, output_norm, lm_head, layer_prefix;
  std::string_view attn_norm, q, k, v, o, q_norm, k_norm, ffn_norm, gate, up, down;
  std::string_view ignored_suffix;  // tensors that hold nothing the forward needs; "" = none
};
const TensorNames& gguf_tensor_names();
const TensorNames& hf_tensor_names();
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

}  // namespace quire
