#include "engine/model/architecture.h"

#include <algorithm>
#include <array>

namespace quire {

std::span<const Architecture> architectures() {
  static constexpr std::array<Architecture, 3> kArchitectures{{
      {.name = "llama", .hf_class = "LlamaForCausalLM", .gguf_interleaved = true},
      {.name = "qwen2", .hf_class = "Qwen2ForCausalLM", .qkv_bias = true},
      {.name = "qwen3", .hf_class = "Qwen3ForCausalLM", .qk_norm = true, .hf_head_dim = 128},
  }};
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  const auto all = architectures();
  const auto it = std::ranges::find(all, name, &Architecture::name);
  return it == all.end() ? nullptr : &*it;
}

std::string architecture_names() {
  std::string names;
  for (const auto& architecture : architectures())
    names.append(names.empty() ? "" : ", ").append(architecture.name);
  return names;
}

const TensorNames& gguf_tensor_names() {
  static constexpr TensorNames kNames{
      .embed = "token_embd.weight",
      .output_norm = "output_norm.weight",
      .lm_head = "output.weight",
      .layer_prefix = "blk.",
      .attn_norm = "attn_norm",
      .q = "attn_q",
      .k = "attn_k",
      .v = "attn_v",
      .o = "attn_output",
      .q_norm = "attn_q_norm",
      .k_norm = "attn_k_norm",
      .ffn_norm = "ffn_norm",
      .gate = "ffn_gate",
      .up = "ffn_up",
      .down = "ffn_down",
      .ignored_suffix = "",
  };
  return kNames;
}

const TensorNames& hf_tensor_names() {
  static constexpr TensorNames kNames{
      .embed = "model.embed_tokens.weight",
      .output_norm = "model.norm.weight",
      .lm_head = "lm_head.weight",
      .layer_prefix = "model.layers.",
      .attn_norm = "input_layernorm",
      .q = "self_attn.q_proj",
      .k = "self_attn.k_proj",
      .v = "self_attn.v_proj",
      .o = "self_attn.o_proj",
      .q_norm = "self_attn.q_norm",
      .k_norm = "self_attn.k_norm",
      .ffn_norm = "post_attention_layernorm",
      .gate = "mlp.gate_proj",
      .up = "mlp.up_proj",
      .down = "mlp.down_proj",
      .ignored_suffix = ".rotary_emb.inv_freq",
  };
  return kNames;
}

}  // namespace quire
