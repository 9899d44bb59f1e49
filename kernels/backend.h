#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/kv_dtype.h"

// The table of operations a model's forward pass calls. Weights are packed and buffers owned by the
// backend; no host pointer appears above it except where a parameter says so, so another device is
// another table.
//
// Numerics contract: the bits of a row of any result depend only on that row's own inputs, never on
// the other rows, on how many there are, on the thread count, or on which physical blocks hold its
// context.
namespace quire {

// A stored matrix on the host, row-major, rows contiguous. The memory must outlive every Matrix
// packed from it.
struct MatrixView {
  DType dtype = DType::kF32;
  std::int64_t rows = 0;  // outputs
  std::int64_t cols = 0;  // inputs
  const void* data = nullptr;
};

// Weights of one linear map y[n, rows] = x[n, cols] * W^T, possibly several stacked matrices of
// different types.
class Matrix {
 public:
  virtual ~Matrix() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t cols() const = 0;
  virtual std::size_t bytes() const = 0;  // resident on the device
};

// A float32 vector on the device (norm weights, biases, inverse frequencies).
class Vector {
 public:
  virtual ~Vector() = default;
  virtual std::int64_t size() const = 0;
};

// float32 activations [max_rows, width] on the device.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual int max_rows() const = 0;
  virtual int width() const = 0;
};

// What one layer keeps per token.
struct KvLayerSpec {
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // attention sees the last `window` positions; 0 = all
};

struct KvSpec {
  std::vector<KvLayerSpec> layers;
};

// Every layer's K and V in blocks of block_size tokens. Padding rows (slot -1) are written to a
// scratch block behind the pool, or not at all. Layout and element type are the backend's.
class KvPool {
 public:
  virtual ~KvPool() = default;
  virtual int num_blocks() const = 0;
  virtual int block_size() const = 0;
  virtual std::size_t bytes_per_block() const = 0;  // all layers, K and V
  // Opaque contents of one block, bytes_per_block() long (host memory).
  virtual void read_block(int block, std::span<std::byte> target) const = 0;
  virtual void write_block(int block, std::span<const std::byte> source) = 0;
  virtual void copy_block(int source, int target) = 0;
  // Fills the whole pool with NaN, so that reading a slot nobody wrote shows. Tests only.
  virtual void poison() = 0;
};

// A step's layout (host memory; shapes as in engine/core/batch.h). Valid until end_step.
struct BatchView {
  int num_tokens = 0;
  int num_reqs = 0;
  const std::int32_t* input_ids = nullptr;        // [num_tokens]
  const std::int32_t* positions = nullptr;        // [num_tokens]
  const std::int64_t* slot_mapping = nullptr;     // [num_tokens]; -1 = padding row
  const std::int32_t* query_start_loc = nullptr;  // [num_reqs + 1]
  const std::int32_t* seq_lens = nullptr;  // [num_reqs]; 0 = padding row: attention output is zero
  const std::int32_t* block_table = nullptr;  // [num_reqs, max_blocks]
  int max_blocks = 0;
  // Once set, operations may stop early and what they write is unspecified. May be null.
  const std::atomic<bool>* cancel = nullptr;
};

struct RopeParams {
  const Vector* inv_freq = nullptr;  // [rotary_dim / 2], scaling already applied
  float scale = 1.0f;                // multiplies cos and sin (attention factor of some scalings)
  int rotary_dim = 0;                // leading dims of each head that rotate; <= head_dim
  bool interleaved = false;          // true: pairs (2i, 2i+1); false: pairs (i, i + rotary_dim/2)
};

struct QkvShape {
  int num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int qkv_width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};

enum class Activation : std::uint8_t { kSiluMul, kGeluTanhMul };  // act(gate) * up

enum class CpuPin : std::uint8_t {
  kNone,   // the system moves threads as it likes
  kCores,  // each thread keeps to one CPU, on different physical cores as long as there are some
};
enum class CpuPriority : std::uint8_t { kLow, kNormal, kHigh };  // nice 10, as started, nice -10

struct BackendOptions {
  int num_threads = 0;  // 0 = physical cores the process may use
  std::string isa;  // "", "scalar", "avx2", "avx512", "amx": the highest instruction set to use;
                    // "" = what the machine has
  KvDType kv_dtype = KvDType::kBF16;  // cpu; reference always keeps float32
  // cpu: attention reads blocks that several requests of a step share once. Changes no bit.
  bool cascade_attention = true;
  // Of the threads that compute, the one that calls begin_step() included.
  CpuPin cpu_pin = CpuPin::kNone;
  CpuPriority cpu_priority = CpuPriority::kNormal;
};

// The largest of a row's logits and the lowest id that has it. NaN is never the largest, infinity
// counts as the largest float; -infinity and -1 when no logit is above -infinity.
struct LargestLogit {
  float logit = -std::numeric_limits<float>::infinity();
  std::int32_t id = -1;
};

// Rows of the head and what is wanted of them (host memory): a row's logits where it has a place
// for them, else its largest.
struct HeadRows {
  std::span<const std::int32_t> rows;
  std::span<float* const> logits;   // [rows] of [vocab], or null
  std::span<LargestLogit> largest;  // [rows]; not written where there are logits
};
// Places of `count` rows in logits[count, vocab].
inline std::vector<float*> places_of(std::span<float> logits, std::size_t count) {
  std::vector<float*> places;
  for (std::size_t i = 0; i < count; ++i) places.push_back(&logits[i * (logits.size() / count)]);
  return places;
}

// One device. Calls come from one thread at a time (the engine thread; loading may use another
// before).
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;         // "cpu" or "reference"
  virtual std::string description() const = 0;  // for people: "AVX2, 2 threads, KV in BF16"
  // Sentences on settings the system did not grant.
  virtual std::vector<std::string> warnings() const { return {}; }

  // Loading. `parts` are stacked by rows and share cols.
  virtual std::unique_ptr<Matrix> pack(std::span<const MatrixView> parts) = 0;
  // A matrix that only embed() will read; a backend may leave it where it is stored.
  virtual std::unique_ptr<Matrix> pack_table(const MatrixView& table) { return pack({&table, 1}); }
  virtual std::unique_ptr<Vector> upload(std::span<const float> values) = 0;
  // What these two allocate is resident from then on: using it takes no more memory.
  virtual std::unique_ptr<Buffer> allocate(int max_rows, int width) = 0;
  virtual std::unique_ptr<KvPool> allocate_kv(const KvSpec& spec, int num_blocks,
                                              int block_size) = 0;
  virtual std::size_t kv_bytes_per_block(const KvSpec& spec, int block_size) const = 0;

  // One step. begin_step fixes the layout; the operations then work on its num_tokens rows.
  virtual void begin_step(const BatchView& batch) = 0;
  // What begin_step was given is not read any more.
  virtual void end_step() {}
  // x[n, hidden] = rows of `table` at input_ids, decoded to float32, times `scale`.
  virtual void embed(const Matrix& table, float scale, Buffer& x) = 0;
  // out = rmsnorm(x) * weight, then linear (+ bias when given).
  virtual void norm_qkv(const Buffer& x, const Vector& norm_weight, float eps, const Matrix& qkv,
                        const Vector* bias, Buffer& out) = 0;
  // In place on out of norm_qkv: per-head rmsnorm of Q and K when weights are given, rotation, then
  // K and V are written to the layer's slots.
  virtual void rope_write(Buffer& qkv, const QkvShape& shape, const Vector* q_norm,
                          const Vector* k_norm, float eps, const RopeParams& rope, KvPool& pool,
                          int layer) = 0;
  // out[n, num_heads * head_dim]: causal attention over each request's blocks. Query i of request r
  // sits at position seq_lens[r] - t + i and sees keys 0 .. that position (the last `window` of
  // them).
  virtual void attend(const Buffer& qkv, const QkvShape& shape, float scale, const KvPool& pool,
                      int layer, Buffer& out) = 0;
  // x += h * W^T (+ bias). The residual add after attention and after the MLP.
  virtual void linear_add(const Buffer& h, const Matrix& weight, const Vector* bias, Buffer& x) = 0;
  // out[n, ffn] = act(g) * u, [g u] = rmsnorm(x) * [gate; up]^T. gate_up stacks gate above up.
  virtual void norm_gate_up(const Buffer& x, const Vector& norm_weight, float eps,
                            const Matrix& gate_up, Activation activation, Buffer& out) = 0;
  // What `rows` ask for of head(rmsnorm(x[rows])).
  virtual void head(const Buffer& x, const HeadRows& rows, const Vector& norm_weight, float eps,
                    const Matrix& lm_head) = 0;
  // Copies rows [0, n) of a buffer to the host. For tests and --dump-layers.
  virtual void download(const Buffer& buffer, int n, std::span<float> target) = 0;
};

// Plain float32 loops: slow, obviously correct, the definition every faster backend is tested
// against.
std::unique_ptr<Backend> make_reference_backend();
// SIMD on the CPU, weights quantised in memory. An `isa` the machine lacks is an error string in
// `error` and null.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::string& error);
// The highest instruction set this machine has: "scalar", "avx2", "avx512" or "amx".
std::string detect_isa();
int physical_cores();

}  // namespace quire
