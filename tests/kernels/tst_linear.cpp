#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;
using namespace quire::test;

namespace {

enum class Way { kPlain, kGated };

// [rows, outputs] of the stacked parts.
std::vector<float> product(const KernelTable& table, int threads,
                           const std::vector<StoredMatrix>& parts, const std::vector<float>& x,
                           int rows, Way way = Way::kPlain) {
  ThreadPool pool(threads, {.on_start = {}, .after_job = table.end_job});
  Arena arena;
  std::vector<MatrixView> views;
  for (const StoredMatrix& part : parts) views.push_back(part.view());
  CpuMatrix matrix(views);
  matrix.pack(arena, pool);
  Linear linear(table, pool);
  const std::int64_t outputs = way == Way::kGated ? matrix.rows() / 2 : matrix.rows();
  std::vector<float> out(static_cast<std::size_t>(rows * outputs));
  const auto store = [&](int row, std::int64_t column, const float* values, int count) {
    std::memcpy(out.data() + row * outputs + column, values, count * sizeof(float));
  };
  // Twice, so that what the first leaves behind is in the way of the second.
  for (int i = 0; i < 2; ++i) {
    linear.prepare({x.data(), matrix.cols(), nullptr, rows}, matrix, nullptr, 0.0f);
    if (way == Way::kGated)
      linear.multiply_gated(matrix, Activation::kSiluMul, store);
    else
      linear.multiply(matrix, store);
  }
  return out;
}

// Parts whose outputs straddle panels, of several types.
std::vector<StoredMatrix> mixed_parts(Random& random) {
  std::vector<StoredMatrix> parts;
  for (const auto& [dtype, rows] : {std::pair{DType::kQ4_0, 168}, std::pair{DType::kQ6_K, 24},
                                    std::pair{DType::kQ4_0, 320}, std::pair{DType::kBF16, 96}})
    parts.emplace_back(dtype, rows, 512, random);
  return parts;
}

struct Cell {
  std::int64_t column;
  int first, rows;
  auto operator<=>(const Cell&) const = default;
};

std::vector<Cell> cells_of(const LinearPlan& plan, std::int64_t item) {
  std::vector<Cell> cells;
  plan.visit(item, [&](int first, int rows, const LinearPlan::Columns& columns) {
    for (int i = 0; i < columns.count; ++i)
      cells.push_back({columns.first + i * columns.stride, first, rows});
  });
  return cells;
}

}  // namespace

class TestLinear : public QObject {
  Q_OBJECT
 private slots:
  void everySetGivesTheScalarBitsOnAnyThreads() {
    Random random(1);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ8_0, DType::kQ6_K})
      for (const int rows : {1, 12, 27, 48}) {
        const StoredMatrix stored(dtype, rows == 1 ? 600 : 40, 512, random);
        const std::vector<float> x = random.normals(static_cast<std::size_t>(rows) * 512);
        const std::vector<float> expected = product(scalar_kernels(), 1, {stored}, x, rows);
        for (const KernelTable* table : simd_tables())
          for (const int threads : {1, 3})
            QVERIFY2(product(*table, threads, {stored}, x, rows) == expected,
                     qPrintable(QString("%1, %2 rows, %3, %4 threads")
                                    .arg(dtype_info(dtype).name.data())
                                    .arg(rows)
                                    .arg(table->name)
                                    .arg(threads)));
      }
  }

  void stackedPartsGiveWhatEachGivesAlone() {
    Random random(3);
    const std::vector<StoredMatrix> parts = mixed_parts(random);
    for (const int rows : {1, 5}) {
      const std::vector<float> x = random.normals(static_cast<std::size_t>(rows) * 512);
      std::vector<float> expected(static_cast<std::size_t>(rows) * 608);
      std::int64_t column = 0;
      for (const StoredMatrix& part : parts) {
        const std::vector<float> alone = product(scalar_kernels(), 1, {part}, x, rows);
        for (int row = 0; row < rows; ++row)
          std::memcpy(expected.data() + row * 608 + column, alone.data() + row * part.rows,
                      part.rows * sizeof(float));
        column += part.rows;
      }
      for (const KernelTable* table : simd_tables())
        for (const int threads : {1, 2})
          QVERIFY2(product(*table, threads, parts, x, rows) == expected, table->name);
    }
  }

  void gatedOutputsAreTheProductsOfBothHalves() {
    Random random(4);
    const std::vector<StoredMatrix> parts = mixed_parts(random);
    for (const int rows : {1, 5}) {
      const std::vector<float> x = random.normals(static_cast<std::size_t>(rows) * 512);
      const std::vector<float> both = product(scalar_kernels(), 1, parts, x, rows);
      std::vector<float> expected(static_cast<std::size_t>(rows) * 304);
      for (int row = 0; row < rows; ++row)
        scalar_kernels().silu_mul(both.data() + row * 608, both.data() + row * 608 + 304,
                                  expected.data() + row * 304, 304);
      for (const KernelTable* table : simd_tables())
        for (const int threads : {1, 2})
          QVERIFY2(product(*table, threads, parts, x, rows, Way::kGated) == expected, table->name);
    }
  }

  void everyColumnOfEveryRowIsInOneItem() {
    Random random(2);
    for (int i = 0; i < 2000; ++i) {
      const LinearPlan::Size size = {.outputs = 1 + random.below(i % 10 == 0 ? 200000 : 3000),
                                     .rows = 1 + random.below(300),
                                     .block_rows = 16 * (1 + random.below(16)),
                                     .threads = 1 + random.below(70),
                                     .shortest = 1 + random.below(5),
                                     .streams = 1 + random.below(4)};
      const LinearPlan plan(size);
      std::vector<Cell> cells, expected;
      for (std::int64_t item = 0; item < plan.items(); ++item) {
        const std::vector<Cell> more = cells_of(plan, item);
        QVERIFY(!more.empty());
        cells.insert(cells.end(), more.begin(), more.end());
      }
      for (std::int64_t column = 0; column * kPanelRows < size.outputs; ++column)
        for (int first = 0; first < size.rows; first += size.block_rows)
          expected.push_back({column, first, std::min(size.block_rows, size.rows - first)});
      std::sort(cells.begin(), cells.end());
      QVERIFY(cells == expected);
    }
  }

  void aThreadReadsLongPiecesFirstAndShortOnesLast() {
    // Qwen3-0.6B's gate and up, 3,072 outputs each.
    const LinearPlan plan({.outputs = 3072, .rows = 1, .block_rows = 128, .threads = 2});
    std::vector<std::size_t> columns;
    for (std::int64_t item = 0; item < plan.items(); ++item)
      columns.push_back(cells_of(plan, item).size());
    QCOMPARE(columns,
             (std::vector<std::size_t>{48, 48, 24, 24, 12, 12, 6, 6, 3, 3, 1, 2, 1, 1, 1}));
    // More threads than columns to share: one each.
    QCOMPARE(LinearPlan({.outputs = 576, .rows = 1, .block_rows = 128, .threads = 48}).items(),
             std::int64_t{36});
  }

  void aRunIsReadInPiecesSideBySide() {
    const LinearPlan plan(
        {.outputs = 11 * kPanelRows, .rows = 1, .block_rows = 128, .shortest = 11, .streams = 4});
    QCOMPARE(plan.items(), std::int64_t{1});
    std::vector<std::int64_t> columns;
    for (const Cell& cell : cells_of(plan, 0)) columns.push_back(cell.column);
    QCOMPARE(columns, (std::vector<std::int64_t>{0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10}));
  }
};

QUIRE_TEST(TestLinear)
#include "tst_linear.moc"
