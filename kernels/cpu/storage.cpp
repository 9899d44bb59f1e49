#include "kernels/cpu/storage.h"

#include "kernels/check.h"
#include "kernels/cpu/pack.h"

namespace quire::cpu {

std::int64_t CpuMatrix::Part::num_panels() const {
  return (source.rows + kPanelRows - 1) / kPanelRows;
}

CpuMatrix::CpuMatrix(std::span<const MatrixView> parts) {
  QUIRE_CHECK(!parts.empty());
  cols_ = parts.front().cols;
  for (const MatrixView& view : parts) {
    QUIRE_CHECK(view.cols == cols_ && view.rows > 0 && view.cols > 0, view.cols, cols_, view.rows);
    (is_quantised(view.dtype)     ? needs_quantised_
     : view.dtype == DType::kBF16 ? needs_rounded_
                                  : needs_floats_) = true;
    Part& part = parts_.emplace_back();
    part.source = view;
    part.first_row = rows_;
    part.panel_bytes = panel_bytes(view.dtype, view.cols);
    rows_ += view.rows;
  }
}

void CpuMatrix::pack(Arena& arena, ThreadPool& pool) {
  for (Part& part : parts_) {
    part.panels = arena.allocate(part.panel_bytes * part.num_panels());
    pool.run(part.num_panels(), [&part](int panel, int) {
      pack_panel(part.source, panel, part.panels.get() + panel * part.panel_bytes);
    });
  }
}

std::size_t CpuMatrix::bytes() const {
  std::size_t total = 0;
  for (const Part& part : parts_)
    if (part.panels) total += part.panel_bytes * part.num_panels();
  return total;
}

const CpuMatrix::Part& CpuMatrix::part_of(std::int64_t row) const {
  std::size_t index = parts_.size() - 1;
  while (index > 0 && row < parts_[index].first_row) --index;
  return parts_[index];
}

CpuBuffer::CpuBuffer(int max_rows, int width)
    : max_rows_(max_rows),
      width_(width),
      values_(static_cast<std::size_t>(max_rows) * width * sizeof(float)) {}

}  // namespace quire::cpu
