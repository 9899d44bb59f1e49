#include "kernels/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace quire::cpu {
namespace {

// Below this many values the threads are not worth waking.
constexpr std::int64_t kSerialValues = 8192;
constexpr std::size_t kActivationBytes = std::size_t{128} << 10;  // of a row block; stays in L2
constexpr std::size_t kShortestRunBytes = std::size_t{16} << 10;  // of weights
constexpr int kRunsPerThread = 6;                                 // at least, if columns suffice

}  // namespace

void Linear::reserve(const CpuMatrix& weight, int rows) {
  QUIRE_CHECK(weight.packed(), weight.rows(), weight.cols());
  const auto threads = static_cast<std::size_t>(pool_.num_threads());
  tiles_.reserve(threads * 2 * kMaxRows * kPanelRows * sizeof(float));
  normed_.reserve(threads * weight.cols() * sizeof(float));
  prepared_.reserve(rows, weight.cols(),
                    {.floats = weight.needs_floats(),
                     .rounded = weight.needs_rounded(),
                     .bf16 = weight.needs_rounded() && kernels_.reads_bf16,
                     .quantised = weight.needs_quantised()});
}

void Linear::prepare_row(const float* source, int row, const float* norm_weight, float eps,
                         int thread) {
  if (!norm_weight) return prepared_.prepare(kernels_, source, row);
  const std::int64_t cols = prepared_.view().cols;
  float* kept = prepared_.floats(row);
  float* normed = kept ? kept : normed_.as<float>() + thread * cols;
  kernels_.rms_norm(source, norm_weight, eps, cols, normed);
  prepared_.prepare(kernels_, normed, row);
}

void Linear::prepare(const RowSource& source, const CpuMatrix& weight, const float* norm_weight,
                     float eps) {
  reserve(weight, source.count);
  const auto prepare_one = [&](int row, int thread) {
    prepare_row(source.row(row), row, norm_weight, eps, thread);
  };
  if (source.count * weight.cols() < kSerialValues)
    for (int row = 0; row < source.count; ++row) prepare_one(row, 0);
  else
    pool_.run(source.count, prepare_one);
}

LinearPlan Linear::plan_of(const CpuMatrix& weight, std::int64_t outputs, int streams) const {
  const std::size_t row_size = weight.cols() * (prepared_.view().q ? 1 : sizeof(float));
  const auto fitting = static_cast<int>(std::min<std::size_t>(kActivationBytes / row_size, 4096));
  const auto by_bytes = static_cast<std::int64_t>(
      kShortestRunBytes / std::max<std::size_t>(1, weight.parts().front().panel_bytes));
  const std::int64_t by_count = outputs / (kPanelRows * kRunsPerThread * pool_.num_threads());
  return LinearPlan({
      .outputs = outputs,
      .rows = prepared_.view().rows,
      .block_rows = std::clamp(fitting / 16 * 16, 16, kMaxRows),
      .threads = pool_.num_threads(),
      .shortest = std::clamp<std::int64_t>(by_bytes, 1, std::max<std::int64_t>(1, by_count)),
      .streams = prepared_.view().rows == 1 ? streams : 1,
  });
}

Linear::Panels Linear::whole_panels(const CpuMatrix& weight, const Slices& slices, int next) {
  Panels panels;
  for (int i = next; i < slices.count; ++i) {
    const CpuMatrix::Part& part = weight.part_of(slices.first[i]);
    const std::int64_t local = slices.first[i] - part.first_row;
    if (local % kPanelRows != 0 || local + slices.outputs[i] > part.source.rows) break;
    if (i == next) panels.dtype = part.source.dtype;
    if (part.source.dtype != panels.dtype) break;
    panels.data[panels.count++] = part.panel(local / kPanelRows);
  }
  return panels;
}

void Linear::outputs(const CpuMatrix& weight, const Slices& slices, int first, int rows,
                     float* tile) const {
  const ActivationRows x = rows_of(prepared_.view(), first, rows);
  for (int done = 0; done < slices.count;) {
    const Panels whole = whole_panels(weight, slices, done);
    if (whole.count > 0)
      kernels_.panel[static_cast<int>(whole.dtype)](whole.data, whole.count, x, tile);
    else
      straddling(weight, slices.first[done], slices.outputs[done], x, tile);
    const int made = std::max(1, whole.count);
    done += made;
    tile += made * rows * kPanelRows;
  }
}

void Linear::straddling(const CpuMatrix& weight, std::int64_t first_output, int count,
                        const ActivationRows& x, float* tile) const {
  float spare[kMaxRows * kPanelRows];
  for (int done = 0; done < count;) {
    const CpuMatrix::Part& from = weight.part_of(first_output + done);
    const std::int64_t row = first_output + done - from.first_row;
    const int lane = static_cast<int>(row % kPanelRows);
    const int taken = static_cast<int>(
        std::min<std::int64_t>({kPanelRows - lane, count - done, from.source.rows - row}));
    const std::uint8_t* panel = from.panel(row / kPanelRows);
    kernels_.panel[static_cast<int>(from.source.dtype)](&panel, 1, x, spare);
    for (int i = 0; i < x.rows; ++i)
      std::memcpy(tile + i * kPanelRows + done, spare + i * kPanelRows + lane,
                  taken * sizeof(float));
    done += taken;
  }
  for (int i = 0; i < x.rows; ++i)
    std::fill(tile + i * kPanelRows + count, tile + (i + 1) * kPanelRows, 0.0f);
}

}  // namespace quire::cpu
