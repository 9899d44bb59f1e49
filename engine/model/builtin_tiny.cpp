#include "engine/model/builtin_tiny.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/architecture.h"
#include "engine/model/rope.h"

namespace quire {
namespace {

constexpr std::uint64_t kSeed = 0x5175697265ull;

// splitmix64's finaliser (Steele, Lea, Flood 2014): bit i of the output is a function of the
// counter alone.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Sum of four uniforms, centred: near normal with variance 1/3, and made of exact integer
// arithmetic so that every machine agrees on the bits.
float near_normal(std::uint64_t counter) {
  const std::uint64_t bits = mix(mix(kSeed) ^ counter);
  std::int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::int32_t>((bits >> (16 * i)) & 0xffff);
  return static_cast<float>(sum - 2 * 0xffff) / 65536.0f;
}

class TinyWeights : public WeightSource {
 public:
  // Uniform rows; returns the values so that single rows can be scaled.
  std::vector<float>& add(std::string name, std::vector<std::int64_t> shape, float scale,
                          float mean = 0) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    auto& values = values_.emplace_back(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = mean + scale * near_normal((tensors_.size() << 32) + i);
    tensors_.push_back({std::move(name), DType::kF32, std::move(shape), values.data(),
                        values.size() * sizeof(float)});
    return values;
  }

  const TensorInfo* find(std::string_view name) const override {
    const auto it = std::ranges::find(tensors_, name, &TensorInfo::name);
    return it == tensors_.end() ? nullptr : &*it;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::size_t total_bytes() const override {
    std::size_t total = 0;
    for (const TensorInfo& tensor : tensors_) total += tensor.bytes;
    return total;
  }

 private:
  std::vector<std::vector<float>> values_;  // moving the outer vector keeps the inner memory
  std::vector<TensorInfo> tensors_;
};

// Gain over 1/sqrt(inputs): attention and MLP then move the residual stream about as much as the
// embedding does, so outputs depend on the whole context instead of echoing the last token.
float fan_in_scale(int inputs, float gain) {
  return gain * 1.7320508f / std::sqrt(static_cast<float>(inputs));
}

// How strongly the output favours an id: mostly letters and spaces, so that an answer reads as
// words of no language, and sometimes <|eos|>, so that it ends.
float output_gain(std::int64_t id) {
  constexpr std::int64_t kEosId = 257;  // of the byte tokenizer
  if (id == ' ' || id == kEosId) return 4.0f;
  if (id >= 'a' && id <= 'z') return 3.0f;
  return id > ' ' && id <= '~' ? 1.2f : 0.3f;
}

}  // namespace

ModelConfig builtin_tiny_config() {
  ModelConfig c;
  c.architecture = "qwen3";
  c.vocab_size = 260;
  c.hidden_size = 64;
  c.num_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 16;
  c.ffn_size = 128;
  c.context_length = 8192;
  c.norm_eps = 1e-6f;
  c.qk_norm = true;
  c.rotary_dim = c.head_dim;
  c.rope_inv_freq = rope_inv_freq(c.rotary_dim, 10000.0, {});
  return c;
}

std::unique_ptr<WeightSource> make_builtin_tiny_weights() {
  const ModelConfig c = builtin_tiny_config();
  const TensorNames& names = hf_tensor_names();
  const std::int64_t hidden = c.hidden_size, ffn = c.ffn_size;
  const std::int64_t q_width = c.num_heads * c.head_dim, kv_width = c.num_kv_heads * c.head_dim;
  auto weights = std::make_unique<TinyWeights>();
  weights->add(std::string(names.embed), {c.vocab_size, hidden}, 1.0f);
  for (int i = 0; i < c.num_layers; ++i) {
    const std::string prefix = std::string(names.layer_prefix) + std::to_string(i) + ".";
    auto name = [&](std::string_view stem) { return prefix + std::string(stem) + ".weight"; };
    const float into_hidden = fan_in_scale(c.hidden_size, 1.0f);
    weights->add(name(names.attn_norm), {hidden}, 0.1f, 1.0f);
    weights->add(name(names.q), {q_width, hidden}, into_hidden);
    weights->add(name(names.k), {kv_width, hidden}, into_hidden);
    weights->add(name(names.v), {kv_width, hidden}, fan_in_scale(c.hidden_size, 2.0f));
    weights->add(name(names.o), {hidden, q_width}, into_hidden);
    weights->add(name(names.q_norm), {c.head_dim}, 0.1f, 1.5f);
    weights->add(name(names.k_norm), {c.head_dim}, 0.1f, 1.5f);
    weights->add(name(names.ffn_norm), {hidden}, 0.1f, 1.0f);
    weights->add(name(names.gate), {ffn, hidden}, into_hidden);
    weights->add(name(names.up), {ffn, hidden}, into_hidden);
    weights->add(name(names.down), {hidden, ffn}, fan_in_scale(c.ffn_size, 2.0f));
  }
  weights->add(std::string(names.output_norm), {hidden}, 0.1f, 1.0f);
  auto& head = weights->add(std::string(names.lm_head), {c.vocab_size, hidden},
                            fan_in_scale(c.hidden_size, 1.0f));
  for (std::size_t i = 0; i < head.size(); ++i)
    head[i] *= output_gain(static_cast<std::int64_t>(i) / hidden);
  return weights;
}

}  // namespace quire
