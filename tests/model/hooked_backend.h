#pragma once

#include <functional>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace quire::test {

// Passes every call on and tells the hook first; the hook may throw.
class HookedBackend : public Backend {
 public:
  using Hook = std::function<void(const char* operation)>;
  HookedBackend(std::unique_ptr<Backend> inner, Hook hook)
      : inner_(std::move(inner)), hook_(std::move(hook)) {}

  std::string name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  std::unique_ptr<Matrix> pack(std::span<const MatrixView> parts) override {
    hook_("pack");
    return inner_->pack(parts);
  }
  std::unique_ptr<Vector> upload(std::span<const float> values) override {
    return inner_->upload(values);
  }
  std::unique_ptr<Buffer> allocate(int max_rows, int width) override {
    hook_("allocate");
    return inner_->allocate(max_rows, width);
  }
  std::unique_ptr<KvPool> allocate_kv(const KvSpec& spec, int num_blocks, int block_size) override {
    hook_("allocate_kv");
    return inner_->allocate_kv(spec, num_blocks, block_size);
  }
  std::size_t kv_bytes_per_block(const KvSpec& spec, int block_size) const override {
    return inner_->kv_bytes_per_block(spec, block_size);
  }
  void begin_step(const BatchView& batch) override { inner_->begin_step(batch); }
  void embed(const Matrix& table, float scale, Buffer& x) override {
    hook_("embed");
    inner_->embed(table, scale, x);
  }
  void norm_qkv(const Buffer& x, const Vector& norm_weight, float eps, const Matrix& qkv,
                const Vector* bias, Buffer& out) override {
    hook_("norm_qkv");
    inner_->norm_qkv(x, norm_weight, eps, qkv, bias, out);
  }
  void rope_write(Buffer& qkv, const QkvShape& shape, const Vector* q_norm, const Vector* k_norm,
                  float eps, const RopeParams& rope, KvPool& pool, int layer) override {
    hook_("rope_write");
    inner_->rope_write(qkv, shape, q_norm, k_norm, eps, rope, pool, layer);
  }
  void attend(const Buffer& qkv, const QkvShape& shape, float scale, const KvPool& pool, int layer,
              Buffer& out) override {
    hook_("attend");
    inner_->attend(qkv, shape, scale, pool, layer, out);
  }
  void linear_add(const Buffer& h, const Matrix& weight, const Vector* bias, Buffer& x) override {
    hook_("linear_add");
    inner_->linear_add(h, weight, bias, x);
  }
  void norm_gate_up(const Buffer& x, const Vector& norm_weight, float eps, const Matrix& gate_up,
                    Activation activation, Buffer& out) override {
    hook_("norm_gate_up");
    inner_->norm_gate_up(x, norm_weight, eps, gate_up, activation, out);
  }
  void head(const Buffer& x, const HeadRows& rows, const Vector& norm_weight, float eps,
            const Matrix& lm_head) override {
    hook_("head");
    inner_->head(x, rows, norm_weight, eps, lm_head);
  }
  void download(const Buffer& buffer, int n, std::span<float> target) override {
    inner_->download(buffer, n, target);
  }

 private:
  std::unique_ptr<Backend> inner_;
  Hook hook_;
};

}  // namespace quire::test
