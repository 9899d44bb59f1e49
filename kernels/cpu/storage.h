#pragma once

#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"

namespace quire::cpu {

// Stacked weights, each part packed in panels of 16 rows (format.h). The sources stay referenced:
// embed() decodes rows from them. A matrix made without packing is only for
// embed().
class CpuMatrix final : public Matrix {
 public:
  struct Part {
    MatrixView source;
    std::int64_t first_row = 0;  // of the stacked matrix
    std::size_t panel_bytes = 0;
    std::shared_ptr<std::uint8_t> panels;

    std::int64_t num_panels() const;
    const std::uint8_t* panel(std::int64_t index) const {
      return panels.get() + index * panel_bytes;
    }
  };

  explicit CpuMatrix(std::span<const MatrixView> parts);

  void pack(Arena& arena, ThreadPool& pool);

  std::int64_t rows() const override { return rows_; }
  std::int64_t cols() const override { return cols_; }
  std::size_t bytes() const override;
  const std::vector<Part>& parts() const { return parts_; }
  const Part& part_of(std::int64_t row) const;
  bool packed() const { return parts_.front().panels != nullptr; }
  // Whether some part has weights of a quantised type, of BF16, of F16 or F32.
  bool needs_quantised() const { return needs_quantised_; }
  bool needs_rounded() const { return needs_rounded_; }
  bool needs_floats() const { return needs_floats_; }

 private:
  std::int64_t rows_ = 0, cols_ = 0;
  bool needs_quantised_ = false, needs_rounded_ = false, needs_floats_ = false;
  std::vector<Part> parts_;
};

class CpuVector final : public Vector {
 public:
  explicit CpuVector(std::span<const float> values) : values_(values.begin(), values.end()) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(values_.size()); }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

class CpuBuffer final : public Buffer {
 public:
  CpuBuffer(int max_rows, int width);
  int max_rows() const override { return max_rows_; }
  int width() const override { return width_; }
  void populate(ThreadPool& pool) { values_.populate(pool); }
  float* row(int index) { return values_.as<float>() + static_cast<std::size_t>(index) * width_; }
  const float* row(int index) const {
    return values_.as<float>() + static_cast<std::size_t>(index) * width_;
  }

 private:
  int max_rows_ = 0, width_ = 0;
  AlignedBytes values_;  // [max_rows, width] floats
};

inline const CpuMatrix& host(const Matrix& matrix) {
  return static_cast<const CpuMatrix&>(matrix);
}
inline const float* host(const Vector& vector) {
  return static_cast<const CpuVector&>(vector).data();
}
inline const float* host(const Vector* vector) {
  return vector ? host(*vector) : nullptr;
}
inline CpuBuffer& host(Buffer& buffer) {
  return static_cast<CpuBuffer&>(buffer);
}
inline const CpuBuffer& host(const Buffer& buffer) {
  return static_cast<const CpuBuffer&>(buffer);
}

}  // namespace quire::cpu
