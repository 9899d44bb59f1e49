#include <algorithm>

#include "kernels/backend.h"
#include "kernels/check.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/math.h"
#include "kernels/reference/storage.h"

namespace quire {
namespace reference {
namespace {

const ReferenceMatrix& host(const Matrix& matrix) {
  return static_cast<const ReferenceMatrix&>(matrix);
}
const float* host(const Vector& vector) {
  return static_cast<const ReferenceVector&>(vector).data();
}
ReferenceBuffer& host(Buffer& buffer) {
  return static_cast<ReferenceBuffer&>(buffer);
}
const ReferenceBuffer& host(const Buffer& buffer) {
  return static_cast<const ReferenceBuffer&>(buffer);
}

// out[rows] = x * W^T (+ bias)
void linear(const float* x, const ReferenceMatrix& weight, const Vector* bias, float* out) {
  for (std::int64_t row = 0; row < weight.rows(); ++row) {
    out[row] = dot(x, weight.row(row), weight.cols());
    if (bias) out[row] += host(*bias)[row];
  }
}

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference, plain float32 loops, 1 thread"; }

  std::unique_ptr<Matrix> pack(std::span<const MatrixView> parts) override {
    return std::make_unique<ReferenceMatrix>(parts);
  }
  std::unique_ptr<Vector> upload(std::span<const float> values) override {
    return std::make_unique<ReferenceVector>(values);
  }
  std::unique_ptr<Buffer> allocate(int max_rows, int width) override {
    return std::make_unique<ReferenceBuffer>(max_rows, width);
  }
  std::unique_ptr<KvPool> allocate_kv(const KvSpec& spec, int num_blocks, int block_size) override {
    return std::make_unique<ReferenceKvPool>(spec, num_blocks, block_size);
  }
  std::size_t kv_bytes_per_block(const KvSpec& spec, int block_size) const override {
    return kv_block_bytes(spec, block_size);
  }

  void begin_step(const BatchView& batch) override { batch_ = batch; }
  void embed(const Matrix& table, float scale, Buffer& x) override;
  void norm_qkv(const Buffer& x, const Vector& norm_weight, float eps, const Matrix& qkv,
                const Vector* bias, Buffer& out) override;
  void rope_write(Buffer& qkv, const QkvShape& shape, const Vector* q_norm, const Vector* k_norm,
                  float eps, const RopeParams& rope, KvPool& pool, int layer) override;
  void attend(const Buffer& qkv, const QkvShape& shape, float scale, const KvPool& pool, int layer,
              Buffer& out) override;
  void linear_add(const Buffer& h, const Matrix& weight, const Vector* bias, Buffer& x) override;
  void norm_gate_up(const Buffer& x, const Vector& norm_weight, float eps, const Matrix& gate_up,
                    Activation activation, Buffer& out) override;
  void head(const Buffer& x, const HeadRows& rows, const Vector& norm_weight, float eps,
            const Matrix& lm_head) override;
  void download(const Buffer& buffer, int n, std::span<float> target) override;

 private:
  // rmsnorm(x[row]) * weight, in scratch memory that the next call reuses.
  const float* normed(const Buffer& x, int row, const Vector& weight, float eps) {
    normed_.resize(x.width());
    rms_norm(host(x).row(row), host(weight), eps, x.width(), normed_.data());
    return normed_.data();
  }

  BatchView batch_;
  std::vector<float> normed_, wide_;
};

void ReferenceBackend::embed(const Matrix& table, float scale, Buffer& x) {
  QUIRE_CHECK(x.width() == table.cols() && batch_.num_tokens <= x.max_rows(), x.width(),
              table.cols(), batch_.num_tokens);
  for (int i = 0; i < batch_.num_tokens; ++i) {
    const std::int32_t id = batch_.input_ids[i];
    QUIRE_CHECK(id >= 0 && id < table.rows(), id, table.rows());
    const float* source = host(table).row(id);
    std::transform(source, source + x.width(), host(x).row(i),
                   [scale](float value) { return value * scale; });
  }
}

void ReferenceBackend::norm_qkv(const Buffer& x, const Vector& norm_weight, float eps,
                                const Matrix& qkv, const Vector* bias, Buffer& out) {
  QUIRE_CHECK(x.width() == qkv.cols() && out.width() == qkv.rows(), x.width(), out.width());
  for (int i = 0; i < batch_.num_tokens; ++i)
    linear(normed(x, i, norm_weight, eps), host(qkv), bias, host(out).row(i));
}

void ReferenceBackend::rope_write(Buffer& qkv, const QkvShape& shape, const Vector* q_norm,
                                  const Vector* k_norm, float eps, const RopeParams& rope,
                                  KvPool& pool, int layer) {
  QUIRE_CHECK(qkv.width() == shape.qkv_width(), qkv.width(), shape.qkv_width());
  auto& cache = static_cast<ReferenceKvPool&>(pool);
  const int dim = shape.head_dim;
  for (int i = 0; i < batch_.num_tokens; ++i) {
    float* row = host(qkv).row(i);
    for (int h = 0; h < shape.num_heads + shape.num_kv_heads; ++h) {
      float* head = row + h * dim;
      const Vector* weight = h < shape.num_heads ? q_norm : k_norm;
      if (weight) rms_norm(head, host(*weight), eps, dim, head);
      if (rope.inv_freq) rotate(head, batch_.positions[i], host(*rope.inv_freq), rope);
    }
    const float* k = row + shape.num_heads * dim;
    const float* v = k + shape.num_kv_heads * dim;
    for (int h = 0; h < shape.num_kv_heads; ++h) {
      std::copy_n(k + h * dim, dim, cache.key(layer, batch_.slot_mapping[i], h));
      std::copy_n(v + h * dim, dim, cache.value(layer, batch_.slot_mapping[i], h));
    }
  }
}

void ReferenceBackend::attend(const Buffer& qkv, const QkvShape& shape, float scale,
                              const KvPool& pool, int layer, Buffer& out) {
  const auto& cache = static_cast<const ReferenceKvPool&>(pool);
  const int group = shape.num_heads / shape.num_kv_heads;
  const std::int64_t window = cache.layer(layer).window;
  for (int r = 0; r < batch_.num_reqs; ++r) {
    const int first = batch_.query_start_loc[r], last = batch_.query_start_loc[r + 1];
    for (int i = first; i < last; ++i) {
      const std::int64_t end = batch_.seq_lens[r] == 0 ? 0 : batch_.seq_lens[r] - last + i + 1;
      const Context context{batch_.block_table + static_cast<std::int64_t>(r) * batch_.max_blocks,
                            window > 0 ? std::max<std::int64_t>(0, end - window) : 0, end};
      for (int h = 0; h < shape.num_heads; ++h)
        attend_head(host(qkv).row(i) + h * shape.head_dim, context, scale, cache, layer, h / group,
                    host(out).row(i) + h * shape.head_dim);
    }
  }
}

void ReferenceBackend::linear_add(const Buffer& h, const Matrix& weight, const Vector* bias,
                                  Buffer& x) {
  QUIRE_CHECK(h.width() == weight.cols() && x.width() == weight.rows(), h.width(), x.width());
  wide_.resize(weight.rows());
  for (int i = 0; i < batch_.num_tokens; ++i) {
    linear(host(h).row(i), host(weight), bias, wide_.data());
    float* row = host(x).row(i);
    for (int c = 0; c < x.width(); ++c) row[c] += wide_[c];
  }
}

void ReferenceBackend::norm_gate_up(const Buffer& x, const Vector& norm_weight, float eps,
                                    const Matrix& gate_up, Activation activation, Buffer& out) {
  QUIRE_CHECK(gate_up.rows() == 2 * out.width() && x.width() == gate_up.cols(), gate_up.rows(),
              out.width());
  wide_.resize(gate_up.rows());
  const int ffn = out.width();
  for (int i = 0; i < batch_.num_tokens; ++i) {
    linear(normed(x, i, norm_weight, eps), host(gate_up), nullptr, wide_.data());
    for (int c = 0; c < ffn; ++c)
      host(out).row(i)[c] = activate(activation, wide_[c]) * wide_[ffn + c];
  }
}

void ReferenceBackend::head(const Buffer& x, const HeadRows& rows, const Vector& norm_weight,
                            float eps, const Matrix& lm_head) {
  QUIRE_CHECK(rows.logits.size() == rows.rows.size(), rows.logits.size(), rows.rows.size());
  wide_.resize(std::max(wide_.size(), static_cast<std::size_t>(lm_head.rows())));
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    float* logits = rows.logits[i] ? rows.logits[i] : wide_.data();
    linear(normed(x, rows.rows[i], norm_weight, eps), host(lm_head), nullptr, logits);
    if (rows.logits[i]) continue;
    LargestLogit& largest = rows.largest[i] = {};
    for (std::int32_t id = 0; id < lm_head.rows(); ++id) {
      const float logit = std::min(logits[id], std::numeric_limits<float>::max());
      if (logit > largest.logit) largest = {logit, id};
    }
  }
}

void ReferenceBackend::download(const Buffer& buffer, int n, std::span<float> target) {
  QUIRE_CHECK(
      target.size() == static_cast<std::size_t>(n) * buffer.width() && n <= buffer.max_rows(), n);
  std::copy_n(host(buffer).row(0), target.size(), target.data());
}

}  // namespace
}  // namespace reference

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace quire
