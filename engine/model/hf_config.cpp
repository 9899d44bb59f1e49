#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/formats/checked_json.h"
#include "engine/model/architecture.h"
#include "engine/model/read_config.h"
#include "engine/model/rope.h"

namespace quire {
namespace {

using Json = nlohmann::json;

Error unsupported(std::string message) {
  return make_error(ErrorCode::kUnsupportedModel, std::move(message));
}

// Fields of one object of config.json; null reads as absent.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  std::optional<std::int64_t> integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number_integer()) return std::nullopt;
    constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
    if (value->is_number_unsigned() && value->get<std::uint64_t>() > kMax) return kMax;
    return value->get<std::int64_t>();
  }
  std::optional<double> number(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->get<double>();
  }
  std::string text(const char* key) const {
    const Json* value = find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  bool flag(const char* key) const {
    const Json* value = find(key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  Result<int> size(const char* key, std::int64_t max, std::int64_t fallback = 0) const {
    if (find(key) != nullptr && !integer(key))
      return make_error(ErrorCode::kBadModelFile,
                        std::string("config.json: ") + key + " must be a whole number.");
    return checked_size(key, integer(key), max, fallback);
  }

 private:
  const Json& object_;
};

Result<const Architecture*> read_architecture(const Fields& fields) {
  const std::string type = fields.text("model_type");
  if (type.empty())
    return make_error(ErrorCode::kBadModelFile, "config.json does not name its model_type.");
  const Architecture* architecture = find_architecture(type);
  if (architecture == nullptr)
    return unsupported("The architecture '" + type +
                       "' is not supported (supported: " + architecture_names() + ").");
  const Json* classes = fields.find("architectures");
  if (classes != nullptr && classes->is_array() && !classes->empty() &&
      classes->front().is_string() && classes->front().get<std::string>() != architecture->hf_class)
    return unsupported("The model class '" + classes->front().get<std::string>() +
                       "' is not supported (expected " + std::string(architecture->hf_class) +
                       ").");
  return architecture;
}

// Sliding windows as the Qwen configurations spell them. A window as long as the context, or one
// that no layer uses, is full attention.
Status refuse_windows(const Fields& fields, const ModelConfig& c) {
  const Json* types = fields.find("layer_types");
  const bool all_full =
      types != nullptr && types->is_array() && std::ranges::all_of(*types, [](const Json& t) {
        return t.is_string() && t.get_ref<const std::string&>() == "full_attention";
      });
  if (types != nullptr && !all_full)
    return unsupported(
        "The model's layer_types name other layers than full_attention; only full "
        "attention is supported.");
  const auto window = fields.integer("sliding_window");
  if (!window || *window >= c.context_length || all_full) return Ok{};
  const Json* use = fields.find("use_sliding_window");
  const bool used = use == nullptr ? true : fields.flag("use_sliding_window");
  if (used && fields.integer("max_window_layers").value_or(0) < c.num_layers)
    return unsupported("The model uses sliding-window attention (sliding_window " +
                       std::to_string(*window) + "), which is not supported.");
  return Ok{};
}

Status refuse_other_arithmetic(const Fields& fields) {
  if (const Json* quantization = fields.find("quantization_config")) {
    const std::string method =
        quantization->is_object() ? Fields(*quantization).text("quant_method") : "";
    return unsupported("The model is quantised with '" + method +
                       "', which is not supported; use its GGUF or unquantised form.");
  }
  if (fields.flag("mlp_bias"))
    return unsupported("The model has biases in its MLP (mlp_bias), which is not supported.");
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (fields.integer(key).value_or(0) > 0)
      return unsupported(std::string("The model is a mixture of experts (") + key +
                         "), which is not supported.");
  return Ok{};
}

Status read_activation(const Fields& fields, ModelConfig& config) {
  const std::string name =
      fields.find("hidden_act") == nullptr ? "silu" : fields.text("hidden_act");
  if (name == "silu" || name == "swish") {
    config.activation = Activation::kSiluMul;
  } else if (name == "gelu_pytorch_tanh") {
    config.activation = Activation::kGeluTanhMul;
  } else {
    return unsupported("The activation '" + name + "' (hidden_act) is not supported.");
  }
  return Ok{};
}

Result<RopeScaling> read_scaling(const Fields& rope, int context_length) {
  std::string type = rope.text("rope_type");
  if (type.empty()) type = rope.text("type");
  if (type.empty() || type == "default") return RopeScaling{};
  RopeScaling scaling;
  scaling.factor = rope.number("factor").value_or(0);
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    scaling.low_freq_factor = rope.number("low_freq_factor").value_or(0);
    scaling.high_freq_factor = rope.number("high_freq_factor").value_or(0);
    scaling.original_context =
        rope.number("original_max_position_embeddings").value_or(context_length);
  } else {
    return unsupported("The model uses rope scaling '" + type + "', which is not supported.");
  }
  return scaling;
}

// transformers 5 keeps base and scaling in rope_parameters; 4 has rope_theta and rope_scaling.
Status read_rope(const Fields& fields, ModelConfig& config) {
  const Json none = Json::object();
  const Json* object = fields.find("rope_parameters");
  if (object == nullptr) object = fields.find("rope_scaling");
  if (object == nullptr) object = &none;
  if (!object->is_object())
    return make_error(ErrorCode::kBadModelFile, "config.json: rope parameters must be an object.");
  for (const Json& value : *object)
    if (value.is_object())
      return unsupported(
          "The model has a rotary embedding per layer type, which is not supported.");
  const Fields rope(*object);
  const auto partial = rope.find("partial_rotary_factor") != nullptr
                           ? rope.number("partial_rotary_factor")
                           : fields.number("partial_rotary_factor");
  if (partial && *partial != 1)
    return unsupported(
        "The model rotates part of each head (partial_rotary_factor), which is not "
        "supported.");
  const double theta =
      rope.number("rope_theta").value_or(fields.number("rope_theta").value_or(10000.0));
  QUIRE_TRY(const RopeScaling scaling, read_scaling(rope, config.context_length));
  QUIRE_RETURN_IF_ERROR(check_rope(theta, scaling));
  config.rotary_dim = config.head_dim;
  QUIRE_RETURN_IF_ERROR(check_shape(config));
  config.rope_inv_freq = rope_inv_freq(config.rotary_dim, theta, scaling);
  return Ok{};
}

Status read_sizes(const Fields& fields, const Architecture& architecture, ModelConfig& c) {
  QUIRE_TRY(c.vocab_size, fields.size("vocab_size", kMaxVocab));
  QUIRE_TRY(c.hidden_size, fields.size("hidden_size", kMaxHidden));
  QUIRE_TRY(c.num_layers, fields.size("num_hidden_layers", kMaxLayers));
  QUIRE_TRY(c.num_heads, fields.size("num_attention_heads", kMaxHeads));
  QUIRE_TRY(c.num_kv_heads, fields.size("num_key_value_heads", kMaxHeads, c.num_heads));
  QUIRE_TRY(c.ffn_size, fields.size("intermediate_size", kMaxFfn));
  QUIRE_TRY(c.context_length, fields.size("max_position_embeddings", kMaxContext));
  int head_dim = architecture.hf_head_dim;
  if (head_dim == 0 && fields.find("head_dim") == nullptr) {
    if (c.hidden_size % c.num_heads != 0)
      return make_error(ErrorCode::kBadModelFile,
                        "config.json: hidden_size is not a multiple of num_attention_heads.");
    head_dim = c.hidden_size / c.num_heads;
  }
  QUIRE_TRY(c.head_dim, fields.size("head_dim", kMaxHeadDim, head_dim));
  return Ok{};
}

}  // namespace

Result<ModelConfig> config_from_json(std::string_view config_json) {
  QUIRE_TRY(const Json json, parse_checked_json(config_json, "config.json"));
  if (!json.is_object())
    return make_error(ErrorCode::kBadModelFile, "config.json is not a JSON object.");
  const Fields fields(json);
  QUIRE_TRY(const Architecture* architecture, read_architecture(fields));
  ModelConfig c;
  c.architecture = architecture->name;
  QUIRE_RETURN_IF_ERROR(read_sizes(fields, *architecture, c));
  QUIRE_RETURN_IF_ERROR(refuse_windows(fields, c));
  QUIRE_RETURN_IF_ERROR(refuse_other_arithmetic(fields));
  QUIRE_RETURN_IF_ERROR(read_activation(fields, c));
  c.norm_eps = static_cast<float>(fields.number("rms_norm_eps").value_or(1e-6));
  c.qk_norm = architecture->qk_norm;
  // The Qwen2 classes fix their biases; in the others attention_bias also covers the output.
  c.qkv_bias = architecture->qkv_bias || fields.flag("attention_bias");
  c.o_bias = !architecture->qkv_bias && fields.flag("attention_bias");
  c.tied_embeddings = fields.flag("tie_word_embeddings");
  QUIRE_RETURN_IF_ERROR(read_rope(fields, c));
  return c;
}

}  // namespace quire
