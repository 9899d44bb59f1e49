#include <algorithm>
#include <cctype>
#include <cstring>
#include <thread>

#include "kernels/backend.h"
#include "kernels/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/detect.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/kv_pool.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/placement.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/running_largest.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace cpu {
namespace {

const char* title_of(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return "AMX";
    case Isa::kAvx512:
      return "AVX-512";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kScalar:
      break;
  }
  return "no SIMD";
}

void add_bias(const float* bias, std::int64_t column, float* values, int count) {
  for (int i = 0; bias && i < count; ++i) values[i] += bias[column + i];
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(Isa isa, int num_threads, const BackendOptions& options)
      : isa_(isa),
        kv_dtype_(options.kv_dtype),
        placement_(options.cpu_pin, options.cpu_priority, num_threads),
        pool_(num_threads, {.on_start = [this](int thread) { placement_.apply(thread); },
                            .after_job = kernels_of(isa).end_job}),
        linear_(kernels_of(isa), pool_),
        rope_(kernels_of(isa), pool_),
        attention_(*kernels_of(isa).attention, pool_, options.cascade_attention) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    const int threads = pool_.num_threads();
    std::string type(kv_dtype_name(kv_dtype_));
    for (char& c : type) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::string text = std::string(title_of(isa_)) + ", " + std::to_string(threads) +
                       (threads == 1 ? " thread" : " threads") + ", KV in " + type;
    if (!detected().reason.empty()) text += ". " + detected().reason;
    return text;
  }

  std::vector<std::string> warnings() const override { return placement_.warnings(); }

  std::unique_ptr<Matrix> pack(std::span<const MatrixView> parts) override {
    auto matrix = std::make_unique<CpuMatrix>(parts);
    matrix->pack(arena_, pool_);
    return matrix;
  }
  std::unique_ptr<Matrix> pack_table(const MatrixView& table) override {
    return std::make_unique<CpuMatrix>(std::span(&table, 1));
  }
  std::unique_ptr<Vector> upload(std::span<const float> values) override {
    return std::make_unique<CpuVector>(values);
  }
  std::unique_ptr<Buffer> allocate(int max_rows, int width) override {
    auto buffer = std::make_unique<CpuBuffer>(max_rows, width);
    buffer->populate(pool_);
    return buffer;
  }
  std::unique_ptr<KvPool> allocate_kv(const KvSpec& spec, int num_blocks, int block_size) override {
    auto kv = std::make_unique<CpuKvPool>(spec, num_blocks, block_size, kv_dtype_);
    kv->populate(pool_);
    return kv;
  }
  std::size_t kv_bytes_per_block(const KvSpec& spec, int block_size) const override {
    return kv_block_bytes(spec, block_size, kv_dtype_);
  }

  void begin_step(const BatchView& batch) override {
    place_caller();
    batch_ = batch;
    rope_.begin_step();
    attention_.begin_step();
    pool_.set_cancel(batch.cancel);
  }
  void end_step() override { pool_.set_cancel(nullptr); }
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
  // Loading may use another thread, which is not ours to place.
  void place_caller() {
    if (caller_ == std::this_thread::get_id()) return;
    caller_ = std::this_thread::get_id();
    placement_.apply(0);
  }
  RowSource batch_rows(const Buffer& buffer) const {
    QUIRE_CHECK(batch_.num_tokens <= buffer.max_rows(), batch_.num_tokens, buffer.max_rows());
    return {host(buffer).row(0), buffer.width(), nullptr, batch_.num_tokens};
  }

  Isa isa_;
  KvDType kv_dtype_;
  BatchView batch_;
  std::thread::id caller_;  // of the last begin_step()
  Arena arena_;
  Placement placement_;
  ThreadPool pool_;
  Linear linear_;
  Rope rope_;
  Attention attention_;
};

void CpuBackend::embed(const Matrix& table, float scale, Buffer& x) {
  QUIRE_CHECK(x.width() == table.cols() && batch_.num_tokens <= x.max_rows(), x.width(),
              table.cols(), batch_.num_tokens);
  const FlushDenormals flush;
  pool_.run(batch_.num_tokens, [&](int token, int) {
    const std::int32_t id = batch_.input_ids[token];
    QUIRE_CHECK(id >= 0 && id < table.rows(), id, table.rows());
    const CpuMatrix::Part& part = host(table).part_of(id);
    const MatrixView& source = part.source;
    float* row = host(x).row(token);
    dequantize(source.dtype,
               static_cast<const std::byte*>(source.data) +
                   (id - part.first_row) * row_bytes(source.dtype, source.cols),
               row, source.cols);
    for (int i = 0; i < x.width(); ++i) row[i] *= scale;
  });
}

void CpuBackend::norm_qkv(const Buffer& x, const Vector& norm_weight, float eps, const Matrix& qkv,
                          const Vector* bias, Buffer& out) {
  QUIRE_CHECK(x.width() == qkv.cols() && out.width() == qkv.rows(), x.width(), out.width());
  const FlushDenormals flush;
  linear_.prepare(batch_rows(x), host(qkv), host(norm_weight), eps);
  linear_.multiply(host(qkv), [&](int row, std::int64_t column, float* values, int count) {
    add_bias(host(bias), column, values, count);
    std::memcpy(host(out).row(row) + column, values, count * sizeof(float));
  });
}

void CpuBackend::rope_write(Buffer& qkv, const QkvShape& shape, const Vector* q_norm,
                            const Vector* k_norm, float eps, const RopeParams& rope, KvPool& pool,
                            int layer) {
  QUIRE_CHECK(qkv.width() == shape.qkv_width(), qkv.width(), shape.qkv_width());
  const FlushDenormals flush;
  rope_.run(batch_, host(qkv), shape, host(q_norm), host(k_norm), eps, rope,
            static_cast<CpuKvPool&>(pool), layer);
}

void CpuBackend::attend(const Buffer& qkv, const QkvShape& shape, float scale, const KvPool& pool,
                        int layer, Buffer& out) {
  QUIRE_CHECK(out.width() == shape.num_heads * shape.head_dim, out.width(), shape.num_heads);
  const FlushDenormals flush;
  attention_.run(batch_, host(qkv), shape, scale, static_cast<const CpuKvPool&>(pool), layer,
                 host(out));
}

void CpuBackend::linear_add(const Buffer& h, const Matrix& weight, const Vector* bias, Buffer& x) {
  QUIRE_CHECK(h.width() == weight.cols() && x.width() == weight.rows(), h.width(), x.width());
  const FlushDenormals flush;
  linear_.prepare(batch_rows(h), host(weight), nullptr, 0.0f);
  linear_.multiply(host(weight), [&](int row, std::int64_t column, float* values, int count) {
    add_bias(host(bias), column, values, count);
    float* target = host(x).row(row) + column;
    for (int i = 0; i < count; ++i) target[i] += values[i];
  });
}

void CpuBackend::norm_gate_up(const Buffer& x, const Vector& norm_weight, float eps,
                              const Matrix& gate_up, Activation activation, Buffer& out) {
  QUIRE_CHECK(gate_up.rows() == 2 * out.width() && x.width() == gate_up.cols(), gate_up.rows(),
              out.width());
  const FlushDenormals flush;
  linear_.prepare(batch_rows(x), host(gate_up), host(norm_weight), eps);
  linear_.multiply_gated(host(gate_up), activation,
                         [&](int row, std::int64_t column, const float* values, int count) {
                           std::memcpy(host(out).row(row) + column, values, count * sizeof(float));
                         });
}

void CpuBackend::head(const Buffer& x, const HeadRows& rows, const Vector& norm_weight, float eps,
                      const Matrix& lm_head) {
  const std::size_t count = rows.rows.size();
  QUIRE_CHECK(rows.logits.size() == count, rows.logits.size(), count);
  if (count == 0) return;
  const FlushDenormals flush;
  std::vector<const float*> sources;
  for (const std::int32_t row : rows.rows) {
    QUIRE_CHECK(row >= 0 && row < x.max_rows(), row, x.max_rows());
    sources.push_back(host(x).row(row));
  }
  linear_.prepare({nullptr, 0, sources.data(), static_cast<int>(count)}, host(lm_head),
                  host(norm_weight), eps);
  std::vector<RunningLargest> largest(count);
  linear_.multiply(host(lm_head), [&](int row, std::int64_t column, const float* values, int n) {
    if (float* logits = rows.logits[row])
      std::memcpy(logits + column, values, n * sizeof(float));
    else
      largest[row].offer(values, static_cast<std::int32_t>(column), n);
  });
  for (std::size_t i = 0; i < count; ++i)
    if (!rows.logits[i]) rows.largest[i] = largest[i].result();
}

void CpuBackend::download(const Buffer& buffer, int n, std::span<float> target) {
  QUIRE_CHECK(
      n <= buffer.max_rows() && target.size() == static_cast<std::size_t>(n) * buffer.width(), n);
  std::copy_n(host(buffer).row(0), target.size(), target.data());
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::string& error) {
  cpu::Isa isa = cpu::Isa::kScalar;
  if (!cpu::isa_named(options.isa, isa, error)) return nullptr;
  if (options.num_threads < 0 || options.num_threads > 1024) {
    error = "The number of threads must be between 0 (all cores) and 1024.";
    return nullptr;
  }
  const int threads = options.num_threads > 0 ? options.num_threads : physical_cores();
  return std::make_unique<cpu::CpuBackend>(isa, threads, options);
}

}  // namespace quire
