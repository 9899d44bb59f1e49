#include <algorithm>
#include <array>
#include <cmath>

#include "engine/model/architecture.h"
#include "engine/model/read_config.h"
#include "engine/model/rope.h"

namespace quire {
namespace {

Error unsupported(std::string message) {
  return make_error(ErrorCode::kUnsupportedModel, std::move(message));
}

// Metadata of one architecture: keys are written without their "llama." prefix.
class Metadata {
 public:
  Metadata(const GgufFile& file, const std::string& architecture)
      : file_(file), prefix_(architecture + ".") {}

  std::optional<std::int64_t> integer(std::string_view key) const {
    return file_.get_int(full(key));
  }
  std::optional<double> number(std::string_view key) const { return file_.get_float(full(key)); }
  const std::string* text(std::string_view key) const { return file_.get_string(full(key)); }
  std::optional<bool> flag(std::string_view key) const { return file_.get_bool(full(key)); }

  // A size in [1, max] that some files give per layer; layers that differ are refused.
  Result<int> size(std::string_view key, std::int64_t max, std::int64_t fallback = 0) const {
    auto value = integer(key);
    if (const auto* list = file_.get_ints(full(key)); list != nullptr && !list->empty()) {
      if (std::ranges::any_of(*list, [&](std::int64_t v) { return v != list->front(); }))
        return unsupported("The model's layers differ in " + full(key) +
                           ", which is not supported.");
      value = list->front();
    }
    return checked_size(full(key), value, max, fallback);
  }

  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// Keys that change the forward pass in ways these architectures do not have; zero means "off".
Status refuse_unknown_arithmetic(const Metadata& meta, int context_length) {
  static constexpr std::array kKeys{
      "expert_count",           "attention.scale",
      "attention.clamp_kqv",    "logit_scale",
      "residual_scale",         "embedding_scale",
      "attn_logit_softcapping", "final_logit_softcapping",
      "attention.kv_lora_rank",
  };
  for (const char* key : kKeys)
    if (const auto value = meta.number(key); value && *value != 0)
      return unsupported("The model uses " + meta.full(key) + ", which is not supported.");
  if (!meta.flag("attention.causal").value_or(true))
    return unsupported("The model's attention is not causal, which is not supported.");
  const auto window = meta.integer("attention.sliding_window");
  if (window && *window > 0 && *window < context_length)
    return unsupported("The model uses sliding-window attention (" +
                       meta.full("attention.sliding_window") + "), which is not supported.");
  return Ok{};
}

Result<RopeScaling> read_scaling(const Metadata& meta) {
  RopeScaling scaling;
  if (const auto factor = meta.number("rope.scale_linear"); factor && *factor != 1)
    scaling = {.kind = RopeScaling::Kind::kLinear, .factor = *factor};
  const std::string* type = meta.text("rope.scaling.type");
  if (type == nullptr || *type == "none") return scaling;
  if (*type != "linear")
    return unsupported("The model uses rope scaling '" + *type + "', which is not supported.");
  return RopeScaling{.kind = RopeScaling::Kind::kLinear,
                     .factor = meta.number("rope.scaling.factor").value_or(1)};
}

Status read_rope(const GgufFile& file, const Metadata& meta, ModelConfig& config) {
  QUIRE_TRY(config.rotary_dim, meta.size("rope.dimension_count", kMaxHeadDim, config.head_dim));
  QUIRE_RETURN_IF_ERROR(check_shape(config));
  const double theta = meta.number("rope.freq_base").value_or(10000.0);
  QUIRE_TRY(const RopeScaling scaling, read_scaling(meta));
  QUIRE_RETURN_IF_ERROR(check_rope(theta, scaling));
  config.rope_inv_freq = rope_inv_freq(config.rotary_dim, theta, scaling);

  const TensorInfo* factors = file.find(kGgufRopeFactors);
  if (factors == nullptr) return Ok{};
  const std::vector<std::int64_t> expected{config.rotary_dim / 2};
  if (factors->shape != expected || factors->dtype != DType::kF32)
    return make_error(ErrorCode::kBadModelFile, "rope_freqs.weight must be " +
                                                    std::to_string(config.rotary_dim / 2) +
                                                    " values of type F32.");
  std::vector<float> values(static_cast<std::size_t>(config.rotary_dim / 2));
  dequantize(DType::kF32, factors->data, values.data(), config.rotary_dim / 2);
  return divide_by_factors(config.rope_inv_freq, values);
}

Status read_sizes(const GgufFile& file, const Metadata& meta, ModelConfig& c) {
  QUIRE_TRY(c.num_layers, meta.size("block_count", kMaxLayers));
  QUIRE_TRY(c.context_length, meta.size("context_length", kMaxContext));
  QUIRE_TRY(c.hidden_size, meta.size("embedding_length", kMaxHidden));
  QUIRE_TRY(c.ffn_size, meta.size("feed_forward_length", kMaxFfn));
  QUIRE_TRY(c.num_heads, meta.size("attention.head_count", kMaxHeads));
  QUIRE_TRY(c.num_kv_heads, meta.size("attention.head_count_kv", kMaxHeads, c.num_heads));
  const bool has_head_dim = meta.integer("attention.key_length").has_value();
  if (!has_head_dim && c.hidden_size % c.num_heads != 0)
    return make_error(ErrorCode::kBadModelFile,
                      "The model's width is not a multiple of its number of heads.");
  QUIRE_TRY(c.head_dim,
            meta.size("attention.key_length", kMaxHeadDim, c.hidden_size / c.num_heads));
  QUIRE_TRY(const int value_dim, meta.size("attention.value_length", kMaxHeadDim, c.head_dim));
  if (value_dim != c.head_dim)
    return unsupported("The model's keys and values differ in width, which is not supported.");
  const TensorInfo* embed = file.find(gguf_tensor_names().embed);
  if (embed == nullptr || embed->shape.size() != 2)
    return make_error(ErrorCode::kBadModelFile,
                      "The file has no embedding matrix (token_embd.weight).");
  QUIRE_TRY(c.vocab_size, checked_size("vocabulary size", embed->shape[0], kMaxVocab));
  return Ok{};
}

}  // namespace

Result<ModelConfig> config_from_gguf(const GgufFile& file) {
  const std::string* name = file.get_string("general.architecture");
  if (name == nullptr)
    return make_error(ErrorCode::kBadModelFile,
                      "The file does not name its architecture (general.architecture).");
  const Architecture* architecture = find_architecture(*name);
  if (architecture == nullptr)
    return unsupported("The architecture '" + *name +
                       "' is not supported (supported: " + architecture_names() + ").");
  const Metadata meta(file, *name);
  ModelConfig c;
  c.architecture = *name;
  QUIRE_RETURN_IF_ERROR(read_sizes(file, meta, c));
  QUIRE_RETURN_IF_ERROR(refuse_unknown_arithmetic(meta, c.context_length));
  const auto eps = meta.number("attention.layer_norm_rms_epsilon");
  c.norm_eps = static_cast<float>(eps.value_or(std::nan("")));
  QUIRE_RETURN_IF_ERROR(read_rope(file, meta, c));

  const TensorNames& names = gguf_tensor_names();
  const std::string layer0 = std::string(names.layer_prefix) + "0.";
  auto has = [&](std::string_view stem) {
    return file.find(layer0 + std::string(stem) + ".bias") != nullptr;
  };
  c.rope_interleaved = architecture->gguf_interleaved;
  c.qk_norm = architecture->qk_norm;
  c.qkv_bias = architecture->qkv_bias || has(names.q);
  c.o_bias = has(names.o);
  c.tied_embeddings = file.find(names.lm_head) == nullptr;
  return c;
}

}  // namespace quire
