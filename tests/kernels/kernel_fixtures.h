#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

// Random inputs and batches for the kernel tests. Everything is drawn from a fixed seed.
namespace quire::test {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<unsigned>(bound)); }
  float normal() { return distribution_(engine_); }
  std::vector<float> normals(std::size_t count, float deviation = 1.0f);

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> distribution_;
};

// A stored matrix of random weights: random block bytes with sensible scales for quantised types.
struct StoredMatrix {
  DType dtype;
  std::int64_t rows, cols;
  std::vector<std::uint8_t> bytes;

  StoredMatrix(DType type, std::int64_t num_rows, std::int64_t num_cols, Random& random);
  MatrixView view() const { return {dtype, rows, cols, bytes.data()}; }
  std::vector<float> decoded() const;  // [rows, cols]
};

std::vector<DType> all_dtypes();
// The SIMD tables that can run here, next to the scalar one: AVX2 when the CPU has it, AVX-512 and
// AMX natively or emulated.
std::vector<const cpu::KernelTable*> simd_tables();

// One request's tokens in a step: `num_computed` are in the cache already.
struct Piece {
  int request = 0, num_computed = 0, num_tokens = 0;
};

// A step of pieces, with each request's physical blocks chosen by the caller.
class Step {
 public:
  // blocks[request] lists the request's physical blocks. `padding` appends that many padding rows.
  Step(const std::vector<Piece>& pieces, const std::vector<std::vector<int>>& blocks,
       int block_size, int padding = 0);
  BatchView view() const;
  int num_tokens() const { return static_cast<int>(positions_.size()); }

  std::vector<std::int32_t> input_ids;

 private:
  std::vector<std::int32_t> positions_, query_start_loc_{0}, seq_lens_, block_table_;
  std::vector<std::int64_t> slots_;
  int max_blocks_ = 1;
};

// Whether both hold the same floats, and any: of nothing nothing has been shown.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

// A step of `rows` requests of one token.
Step flat_step(int rows);

// Null when this machine lacks the instruction set asked for.
std::unique_ptr<Backend> make_cpu(const BackendOptions& options);
// Options for every instruction set this machine has, with two threads.
struct CpuConfig {
  std::string name;
  BackendOptions options;
};
std::vector<CpuConfig> cpu_configs();

// Fills a buffer's rows from host memory: a table of float32 rows read through embed().
void set_rows(Backend& backend, Step& step, Buffer& buffer, const std::vector<float>& rows);

}  // namespace quire::test
