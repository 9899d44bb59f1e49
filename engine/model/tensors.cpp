#include "engine/model/tensors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

namespace quire {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// Looks tensors up, checks them, and remembers which were used and the first error.
class Locator {
 public:
  Locator(const WeightSource& source, const TensorNames& names) : source_(source), names_(names) {}

  void set_layer(int layer) {
    prefix_ = std::string(names_.layer_prefix) + std::to_string(layer) + ".";
  }
  const TensorInfo* matrix(std::string_view stem, std::int64_t rows, std::int64_t cols) {
    return take(prefix_ + std::string(stem) + ".weight", {rows, cols});
  }
  const TensorInfo* vector(std::string_view stem, std::int64_t size,
                           std::string_view suffix = ".weight") {
    return take(prefix_ + std::string(stem).append(suffix), {size});
  }
  const TensorInfo* take(std::string name, std::vector<std::int64_t> shape) {
    if (error_) return nullptr;
    const TensorInfo* tensor = source_.find(name);
    if (tensor == nullptr) return fail("The model lacks the tensor " + name + ".");
    if (tensor->shape != shape)
      return fail("The tensor " + name + " has shape " + shape_text(tensor->shape) +
                  ", but the model's configuration needs " + shape_text(shape) + ".");
    const std::int64_t cols = shape.back();
    const std::int64_t rows = shape.size() == 2 ? shape[0] : 1;
    if (cols % dtype_info(tensor->dtype).block_elements != 0 ||
        tensor->bytes < row_bytes(tensor->dtype, cols) * static_cast<std::size_t>(rows))
      return fail("The tensor " + name + " does not hold whole blocks of its type.");
    used_.insert(tensor);
    return tensor;
  }
  void ignore(std::string_view name) { used_.insert(source_.find(name)); }

  Status finish() const {
    if (error_) return *error_;
    for (const TensorInfo& tensor : source_.tensors()) {
      const bool ignored =
          !names_.ignored_suffix.empty() && tensor.name.ends_with(names_.ignored_suffix);
      if (!ignored && !used_.contains(&tensor))
        return make_error(ErrorCode::kUnsupportedModel,
                          "The model has a tensor this architecture does not use, " + tensor.name +
                              ", so it cannot be run as it was meant.");
    }
    return Ok{};
  }

 private:
  const TensorInfo* fail(std::string message) {
    error_ = make_error(ErrorCode::kBadModelFile, std::move(message));
    return nullptr;
  }

  const WeightSource& source_;
  const TensorNames& names_;
  std::string prefix_;
  std::set<const TensorInfo*> used_;
  std::optional<Error> error_;
};

LayerTensors locate_layer(const ModelConfig& c, const TensorNames& names, Locator& at) {
  const int q_width = c.num_heads * c.head_dim, kv_width = c.num_kv_heads * c.head_dim;
  LayerTensors t;
  t.attn_norm = at.vector(names.attn_norm, c.hidden_size);
  t.q = at.matrix(names.q, q_width, c.hidden_size);
  t.k = at.matrix(names.k, kv_width, c.hidden_size);
  t.v = at.matrix(names.v, kv_width, c.hidden_size);
  t.o = at.matrix(names.o, c.hidden_size, q_width);
  if (c.qkv_bias) {
    t.q_bias = at.vector(names.q, q_width, ".bias");
    t.k_bias = at.vector(names.k, kv_width, ".bias");
    t.v_bias = at.vector(names.v, kv_width, ".bias");
  }
  if (c.o_bias) t.o_bias = at.vector(names.o, c.hidden_size, ".bias");
  if (c.qk_norm) {
    t.q_norm = at.vector(names.q_norm, c.head_dim);
    t.k_norm = at.vector(names.k_norm, c.head_dim);
  }
  t.ffn_norm = at.vector(names.ffn_norm, c.hidden_size);
  t.gate = at.matrix(names.gate, c.ffn_size, c.hidden_size);
  t.up = at.matrix(names.up, c.ffn_size, c.hidden_size);
  t.down = at.matrix(names.down, c.hidden_size, c.ffn_size);
  return t;
}

std::int64_t elements(const TensorInfo* tensor) {
  if (tensor == nullptr) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : tensor->shape) count *= size;
  return count;
}

}  // namespace

Result<ModelTensors> locate_tensors(const ModelConfig& config, const WeightSource& source,
                                    const TensorNames& names) {
  Locator at(source, names);
  ModelTensors tensors;
  tensors.source = &source;
  tensors.embed = at.take(std::string(names.embed), {config.vocab_size, config.hidden_size});
  tensors.output_norm = at.take(std::string(names.output_norm), {config.hidden_size});
  if (config.tied_embeddings) {
    at.ignore(names.lm_head);  // some folders store the tied matrix twice
  } else {
    tensors.lm_head = at.take(std::string(names.lm_head), {config.vocab_size, config.hidden_size});
  }
  at.ignore(kGgufRopeFactors);
  for (int layer = 0; layer < config.num_layers; ++layer) {
    at.set_layer(layer);
    tensors.layers.push_back(locate_layer(config, names, at));
  }
  QUIRE_RETURN_IF_ERROR(at.finish());
  return tensors;
}

std::int64_t count_parameters(const ModelTensors& t) {
  std::int64_t total = elements(t.embed) + elements(t.output_norm) + elements(t.lm_head);
  for (const LayerTensors& l : t.layers)
    for (const TensorInfo* tensor :
         {l.attn_norm, l.q, l.k, l.v, l.o, l.q_bias, l.k_bias, l.v_bias, l.o_bias, l.q_norm,
          l.k_norm, l.ffn_norm, l.gate, l.up, l.down})
      total += elements(tensor);
  return total;
}

DType common_dtype(const ModelTensors& tensors) {
  std::array<std::int64_t, kNumDTypes> counts{};
  for (const LayerTensors& l : tensors.layers)
    for (const TensorInfo* tensor : {l.q, l.k, l.v, l.o, l.gate, l.up, l.down})
      counts[static_cast<std::size_t>(tensor->dtype)] += elements(tensor);
  return static_cast<DType>(std::ranges::max_element(counts) - counts.begin());
}

}  // namespace quire
