#include "engine/model/flat_model.h"

#include <array>
#include <cmath>
#include <new>
#include <string>
#include <vector>

namespace quire {
namespace {

struct PackedLayer {
  std::unique_ptr<Vector> attn_norm, ffn_norm;
  std::unique_ptr<Matrix> qkv, o, gate_up, down;
  std::unique_ptr<Vector> qkv_bias, o_bias, q_norm, k_norm;  // null: the architecture has none
};

struct PackedWeights {
  std::unique_ptr<Matrix> embed, lm_head;  // lm_head null: tied
  std::unique_ptr<Vector> output_norm, inv_freq;
  std::vector<PackedLayer> layers;
};

class Packer {
 public:
  Packer(Backend& backend, const WeightSource& source) : backend_(backend), source_(source) {}

  std::unique_ptr<Matrix> matrix(std::initializer_list<const TensorInfo*> parts) {
    std::vector<MatrixView> views;
    for (const TensorInfo* part : parts) {
      views.push_back({part->dtype, part->shape[0], part->shape[1], part->data});
      bytes_done_ += part->bytes;
    }
    auto packed = backend_.pack(views);
    bytes_ += packed->bytes();
    for (const TensorInfo* part : parts) source_.release(*part);
    return packed;
  }
  std::unique_ptr<Matrix> table(const TensorInfo& part) {
    bytes_done_ += part.bytes;
    auto packed = backend_.pack_table({part.dtype, part.shape[0], part.shape[1], part.data});
    bytes_ += packed->bytes();
    return packed;
  }
  std::unique_ptr<Vector> vector(std::initializer_list<const TensorInfo*> parts) {
    std::vector<float> values;
    for (const TensorInfo* part : parts) {
      if (part == nullptr) return nullptr;
      const std::size_t begin = values.size();
      values.resize(begin + static_cast<std::size_t>(part->shape[0]));
      dequantize(part->dtype, part->data, values.data() + begin, part->shape[0]);
      source_.release(*part);
      bytes_done_ += part->bytes;
    }
    bytes_ += values.size() * sizeof(float);
    return backend_.upload(values);
  }
  PackedLayer layer(const LayerTensors& t) {
    PackedLayer packed;
    packed.attn_norm = vector({t.attn_norm});
    packed.qkv = matrix({t.q, t.k, t.v});
    packed.qkv_bias = vector({t.q_bias, t.k_bias, t.v_bias});
    packed.q_norm = vector({t.q_norm});
    packed.k_norm = vector({t.k_norm});
    packed.o = matrix({t.o});
    packed.o_bias = vector({t.o_bias});
    packed.ffn_norm = vector({t.ffn_norm});
    packed.gate_up = matrix({t.gate, t.up});
    packed.down = matrix({t.down});
    return packed;
  }

  std::size_t bytes_done() const { return bytes_done_; }  // read from the source
  std::size_t bytes() const { return bytes_; }            // resident on the device

 private:
  Backend& backend_;
  const WeightSource& source_;
  std::size_t bytes_done_ = 0, bytes_ = 0;
};

class PackedFlatModel : public FlatModel {
 public:
  PackedFlatModel(const ModelConfig& config, PackedWeights weights, std::size_t weight_bytes,
                  Backend& backend)
      : config_(config),
        backend_(backend),
        weights_(std::move(weights)),
        weight_bytes_(weight_bytes) {}

  const ModelConfig& config() const override { return config_; }
  Backend& backend() const override { return backend_; }
  std::size_t weight_bytes() const override { return weight_bytes_; }

  std::size_t buffer_bytes() const override {
    std::size_t floats = 0;
    for (const Buffer* buffer : {x_.get(), qkv_.get(), attention_.get(), ffn_.get()})
      if (buffer != nullptr)
        floats += static_cast<std::size_t>(buffer->max_rows()) * buffer->width();
    return floats * sizeof(float);
  }

  void reserve(int max_num_tokens) override {
    if (x_ != nullptr && x_->max_rows() >= max_num_tokens) return;
    // All or nothing: the old buffers stay when one of the new ones does not fit.
    const int q_width = config_.num_heads * config_.head_dim;
    auto x = backend_.allocate(max_num_tokens, config_.hidden_size);
    auto qkv = backend_.allocate(max_num_tokens, config_.qkv_shape().qkv_width());
    auto attention = backend_.allocate(max_num_tokens, q_width);
    auto ffn = backend_.allocate(max_num_tokens, config_.ffn_size);
    x_ = std::move(x);
    qkv_ = std::move(qkv);
    attention_ = std::move(attention);
    ffn_ = std::move(ffn);
  }

  bool forward(const BatchView& batch, KvPool& pool, const HeadRows& rows,
               const std::atomic<bool>& cancel) override {
    QUIRE_CHECK(x_ != nullptr && batch.num_tokens <= x_->max_rows(), batch.num_tokens);
    BatchView view = batch;
    view.cancel = &cancel;
    backend_.begin_step(view);
    const bool done = run_layers(pool, rows, cancel);
    backend_.end_step();
    return done;
  }

 private:
  // False once `cancel` is set: the backend then stops inside its operations, so that nothing
  // computed since is of use.
  bool run_layers(KvPool& pool, const HeadRows& rows, const std::atomic<bool>& cancel) {
    backend_.embed(*weights_.embed, 1.0f, *x_);
    for (int i = 0; i < config_.num_layers; ++i) {
      if (cancel) return false;
      attention_half(i, pool);
      if (cancel) return false;
      mlp_half(i);
    }
    if (!cancel && !rows.rows.empty()) {
      const Matrix& head = weights_.lm_head != nullptr ? *weights_.lm_head : *weights_.embed;
      backend_.head(*x_, rows, *weights_.output_norm, config_.norm_eps, head);
    }
    return !cancel;
  }

  void attention_half(int i, KvPool& pool) {
    const PackedLayer& layer = weights_.layers[static_cast<std::size_t>(i)];
    const QkvShape shape = config_.qkv_shape();
    const RopeParams rope{weights_.inv_freq.get(), config_.rope_scale, config_.rotary_dim,
                          config_.rope_interleaved};
    backend_.norm_qkv(*x_, *layer.attn_norm, config_.norm_eps, *layer.qkv, layer.qkv_bias.get(),
                      *qkv_);
    backend_.rope_write(*qkv_, shape, layer.q_norm.get(), layer.k_norm.get(), config_.norm_eps,
                        rope, pool, i);
    const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    backend_.attend(*qkv_, shape, scale, pool, i, *attention_);
    backend_.linear_add(*attention_, *layer.o, layer.o_bias.get(), *x_);
  }

  void mlp_half(int i) {
    const PackedLayer& layer = weights_.layers[static_cast<std::size_t>(i)];
    backend_.norm_gate_up(*x_, *layer.ffn_norm, config_.norm_eps, *layer.gate_up,
                          config_.activation, *ffn_);
    backend_.linear_add(*ffn_, *layer.down, nullptr, *x_);
  }

  ModelConfig config_;
  Backend& backend_;
  PackedWeights weights_;
  std::size_t weight_bytes_;
  std::unique_ptr<Buffer> x_;          // [n, hidden] residual stream
  std::unique_ptr<Buffer> qkv_;        // [n, (heads + 2 kv_heads) * head_dim]
  std::unique_ptr<Buffer> attention_;  // [n, heads * head_dim]
  std::unique_ptr<Buffer> ffn_;        // [n, ffn]
};

Result<std::unique_ptr<FlatModel>> pack_all(const ModelConfig& config, const ModelTensors& tensors,
                                            Backend& backend, const PackProgress& progress) {
  const Error cancelled = make_error(ErrorCode::kCancelled, "Loading was cancelled.");
  auto keep_going = [&](std::size_t done, std::string_view what) {
    return !progress || progress(done, what);
  };
  Packer packer(backend, *tensors.source);
  PackedWeights weights;
  if (!keep_going(0, "packing the embedding")) return cancelled;
  weights.embed =
      tensors.lm_head == nullptr ? packer.matrix({tensors.embed}) : packer.table(*tensors.embed);
  for (std::size_t i = 0; i < tensors.layers.size(); ++i) {
    const std::string what =
        "packing layer " + std::to_string(i + 1) + " of " + std::to_string(tensors.layers.size());
    if (!keep_going(packer.bytes_done(), what)) return cancelled;
    weights.layers.push_back(packer.layer(tensors.layers[i]));
  }
  if (!keep_going(packer.bytes_done(), "packing the output")) return cancelled;
  weights.output_norm = packer.vector({tensors.output_norm});
  if (tensors.lm_head != nullptr) weights.lm_head = packer.matrix({tensors.lm_head});
  weights.inv_freq = backend.upload(config.rope_inv_freq);
  if (!keep_going(packer.bytes_done(), "ready")) return cancelled;
  return std::unique_ptr<FlatModel>(
      new PackedFlatModel(config, std::move(weights), packer.bytes(), backend));
}

}  // namespace

Result<std::unique_ptr<FlatModel>> make_flat_model(const ModelConfig& config,
                                                   const ModelTensors& tensors, Backend& backend,
                                                   const PackProgress& progress) {
  try {
    return pack_all(config, tensors, backend, progress);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory,
                      "There is not enough memory for the model's weights; close other programs or "
                      "choose a smaller model.");
  }
}

bool FlatModel::forward_logits(const BatchView& batch, KvPool& pool,
                               std::span<const std::int32_t> logits_rows, std::span<float> logits,
                               const std::atomic<bool>& cancel) {
  QUIRE_CHECK(logits.size() == logits_rows.size() * static_cast<std::size_t>(config().vocab_size),
              logits.size(), logits_rows.size());
  return forward(batch, pool, {logits_rows, places_of(logits, logits_rows.size()), {}}, cancel);
}

}  // namespace quire
